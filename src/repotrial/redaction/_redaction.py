"""Redaction before hashing: secrets leave the text, its structure stays (P27).

A placeholder is one word in mathematical brackets, `⟦REDACTED-API_KEY⟧`: no quote, backslash, white space
or shell operator, so JSON stays JSON and a shell word stays one word; line breaks inside a secret are kept.
It names the secret or the rule, never anything computed from the value (a short hash would confirm a guess).

Why a second pass changes nothing: every place where something matches is found, not only the first of those
that overlap; patterns look at no neighbors, so what did not match in the whole text does not match in what
is left of it; and no secret may hold a bracket of the placeholder or occur inside one, so nothing matches
there either.
"""

from __future__ import annotations

import re
import secrets as entropy
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple, Protocol, Self

import msgspec

from repotrial._core.canonical import Count, canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial.redaction._secrets import (
    DEFAULT_RULES,
    MIN_SECRET_LENGTH,
    SECRET_NAME,
    Rule,
    Spelling,
    build_literal_pattern,
    iter_spellings,
)

_FORMAT = 2
"""Goes into `rules_id`: raise it when placeholders or spellings change."""

_OPEN, _CLOSE = "⟦", "⟧"
_LINE_BREAK = re.compile(r"(\r\n|\r|\n)")
_BASE64_REST = re.compile(r"[A-Za-z0-9+/_-]?={0,2}")
_CUT_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)\Z")
_ESCAPE_REACH = 64


UNUSABLE_SECRET = ErrorCode(
    "unusable-secret",
    UsageError,
    "A declared secret cannot be redacted: too short, badly named, or part of a placeholder itself.",
    hint="replace the secret by a longer random one, or do not declare it as a secret",
)
SCANNER_BROKEN = ErrorCode(
    "scanner-broken",
    MachineError,
    "The secret scanner let a planted canary through, so no trace is begun with it.",
    hint="fix or remove the rule that the message names",
)


class RedactedSpan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One replacement: where it stands in the redacted text (in characters) and how long the original was."""

    start: Count
    """Where the placeholder begins, in characters."""
    length: Count
    """How long the placeholder is."""
    rule: str
    """Its id: `secret:NAME/spelling`, `rule:name`, or `several` where there are too many to list."""
    original_length: Count
    """How long the secret was."""


class Redacted(msgspec.Struct, frozen=True, kw_only=True):
    """Text without secrets, and where the placeholders are."""

    text: str
    spans: tuple[RedactedSpan, ...] = ()


class Redactor(Protocol):
    """The port through which every body passes before it is hashed."""

    @property
    def rules_id(self) -> str:
        """What is looked for, without the values; stands in the first event."""
        ...

    def redact(self, text: str) -> Redacted: ...


class _NoRedaction:
    rules_id = "none"

    def redact(self, text: str) -> Redacted:
        return Redacted(text=text)


NO_REDACTION: Redactor = _NoRedaction()

_PROVING: Final = threading.Lock()


class _Find(NamedTuple):
    start: int
    end: int
    rule: str
    placeholder: str

    @property
    def length(self) -> int:
        return self.end - self.start


class SecretRedactor:
    """Replaces declared secrets, in the spellings that programs give them, and what the rules recognize.

    Args:
        secrets: Values by name; white space around a value does not belong to it.
        rules: Shapes of undeclared secrets.

    Raises:
        UNUSABLE_SECRET: names every secret that cannot be redacted, never a value.
    """

    def __init__(self, secrets: Mapping[str, str], rules: tuple[Rule, ...] = DEFAULT_RULES) -> None:
        self.is_proven = False
        """Whether a canary was caught before: a scanner never changes, so once is enough for many traces."""
        self._secrets = {name: secrets[name].strip() for name in sorted(secrets)}
        self._rules = rules
        self._origins = _origins_of(self._secrets)
        self._known = re.compile(build_literal_pattern(self._origins) or r"(?!)")
        # Without capturing groups the engine can skip by first characters, which makes it eight times faster.
        self._shapes = re.compile("|".join(rule.pattern for rule in rules) or r"(?!)")
        self._shape_by_rule = [(rule, re.compile(rule.pattern)) for rule in rules]
        problems = _secret_problems(self._secrets, self._origins, rules)
        if problems:
            raise UNUSABLE_SECRET.error("; ".join(problems))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._rules

    @cached_property
    def rules_id(self) -> Digest:
        """Digest over what is looked for: the rules and the names of the secrets, not their values."""
        return canonical_digest(
            {
                "format": _FORMAT,
                "rules": [[rule.name, rule.pattern] for rule in self._rules],
                "secrets": list(self._secrets),
            }
        )

    def with_secret(self, name: str, value: str) -> Self:
        """The same scanner, looking for one more secret."""
        return type(self)({**self._secrets, name: value}, self._rules)

    def redact(self, text: str) -> Redacted:
        finds = sorted([*self._iter_known(text), *self._iter_shapes(text)])
        return _replace(text, finds) if finds else Redacted(text=text)

    def _iter_known(self, text: str) -> Iterator[_Find]:
        position = 0
        while (match := self._known.search(text, position)) is not None:
            name, spelling = self._origins[match[0]]
            end = match.end()
            if spelling.is_cut_base64 and (rest := _BASE64_REST.match(text, end)) is not None:
                end = rest.end()
            yield _Find(match.start(), end, f"secret:{name}/{spelling.kind}", _placeholder(name))
            position = match.start() + 1

    def _iter_shapes(self, text: str) -> Iterator[_Find]:
        position = 0
        while (match := self._shapes.search(text, position)) is not None:
            start = match.start()
            name = next(rule.name for rule, shape in self._shape_by_rule if shape.match(text, start))
            yield _Find(start, match.end(), f"rule:{name}", _placeholder(name))
            position = start + 1


def check_canary(redactor: SecretRedactor) -> list[str]:
    """Plant a random secret and an example of every rule, and list what the scanner lets through.

    An empty list is the proof that the scanner works in this process, with these rules.
    """
    canary = f"canary/{entropy.token_urlsafe(24)}+\"\\é&<'"
    planted = redactor.with_secret("REPOTRIAL_CANARY", canary)
    problems = [
        f"expected the canary to be redacted, found its {spelling.kind} spelling in the result"
        for spelling in iter_spellings(canary)
        if spelling.text in planted.redact(f'prefix "{spelling.text}" suffix').text
    ]
    problems += [
        f"expected the rule {rule.name} to redact its example, found the example in the result"
        for rule in redactor.rules
        if rule.example in redactor.redact(f"prefix {rule.example} suffix").text
    ]
    return problems


def verify_canary(redactor: Redactor) -> None:
    """The same as a gate: no trace is begun with a scanner that does not work.

    Raises:
        SCANNER_BROKEN: something planted got through.
    """
    if not isinstance(redactor, SecretRedactor):
        return
    with _PROVING:  # runs that begin at once need one proof, not one each
        if redactor.is_proven:
            return
        problems = check_canary(redactor)
        if problems:
            raise SCANNER_BROKEN.error("; ".join(problems))
        redactor.is_proven = True


def _placeholder(name: str) -> str:
    return f"{_OPEN}REDACTED-{name}{_CLOSE}"


def _origins_of(secrets: Mapping[str, str]) -> dict[str, tuple[str, Spelling]]:
    origins: dict[str, tuple[str, Spelling]] = {}
    for name, value in secrets.items():
        for spelling in iter_spellings(value):
            origins.setdefault(spelling.text, (name, spelling))
    return origins


def _secret_problems(
    secrets: Mapping[str, str], origins: Mapping[str, tuple[str, Spelling]], rules: tuple[Rule, ...]
) -> list[str]:
    problems = [
        f"expected a name like API_KEY, found {name!r}" for name in secrets if not SECRET_NAME.fullmatch(name)
    ]
    problems += [
        f"expected at least {MIN_SECRET_LENGTH} characters in {name}, found {len(value)}"
        for name, value in secrets.items()
        if len(value) < MIN_SECRET_LENGTH
    ]
    placeholders = [_placeholder(name) for name in [*secrets, *(rule.name for rule in rules)]]
    in_placeholder = {
        name
        for text, (name, _) in origins.items()
        if _OPEN in text or _CLOSE in text or any(text in placeholder for placeholder in placeholders)
    }
    problems += [
        f"expected a value that no placeholder shows, found one in {name}" for name in sorted(in_placeholder)
    ]
    return problems


def _replace(text: str, finds: list[_Find]) -> Redacted:
    parts: list[str] = []
    spans: list[RedactedSpan] = []
    copied_to = 0
    written = 0
    for find in _iter_merged(text, finds):
        kept = text[copied_to : find.start]
        replacement = "".join(
            part if not part or _LINE_BREAK.fullmatch(part) else find.placeholder
            for part in _LINE_BREAK.split(text[find.start : find.end])
        )
        written += len(kept)
        spans.append(
            RedactedSpan(start=written, length=len(replacement), rule=find.rule, original_length=find.length)
        )
        written += len(replacement)
        parts += [kept, replacement]
        copied_to = find.end
    parts.append(text[copied_to:])
    return Redacted(text="".join(parts), spans=tuple(spans))


def _iter_merged(text: str, finds: list[_Find]) -> Iterator[_Find]:
    """Finds that overlap become one, named after the longest of them."""
    current = _with_whole_escape(text, finds[0])
    longest = current.length
    for found in finds[1:]:
        # Within a find it makes no difference where the next one begins.
        find = found if found.start < current.end else _with_whole_escape(text, found)
        if find.start >= current.end:
            yield current
            current, longest = find, find.length
            continue
        name_source = find if find.length > longest else current
        longest = max(longest, find.length)
        current = name_source._replace(start=current.start, end=max(current.end, find.end))
    yield current


def _with_whole_escape(text: str, find: _Find) -> _Find:
    r"""Take in the escape that the find cuts: `nightfall` may begin inside the JSON text `\nightfall`."""
    reach = text[max(0, find.start - _ESCAPE_REACH) : find.start]
    cut = _CUT_ESCAPE.search(reach)
    return find if cut is None else find._replace(start=find.start - len(cut[1]))
