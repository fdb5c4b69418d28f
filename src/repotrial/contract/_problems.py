"""Problems found in a contract directory: all of them at once, each with its place."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import inspect as mi

from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.schema import strip_metadata

MAX_FINDINGS = 200
"""Most findings of one pass over a document: more are not read, and making them takes time."""

FieldPlace: TypeAlias = tuple[str | int, ...]
"""Keys and positions from the root of a document."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LAST_STEP = re.compile(r'(?:\[[0-9]+\]|\.?(?:"(?:[^"\\]|\\.)*"|[^."\[\]]+))\Z', re.DOTALL)
_LONGEST_STEP = 120


@dataclass(frozen=True, kw_only=True)
class DocumentFinding:
    """One thing wrong with a document."""

    code: str
    place: FieldPlace
    message: str
    """What was expected and what was found."""
    hint: str = ""

    def to_problem(
        self, file: str, *, locate: Callable[[str], int | None] | None = None, hint: str | None = None
    ) -> Problem:
        """The finding as a problem of `file`; `hint` replaces its own."""
        field = render_field(self.place)
        return Problem(
            code=self.code,
            severity="error",
            file=file,
            line=None if locate is None else locate(field),
            field=field,
            message=self.message,
            hint=self.hint if hint is None else hint,
        )


def take_findings(findings: Iterable[DocumentFinding]) -> list[DocumentFinding]:
    """The first findings, and a word where there are more; what is not taken is not looked for."""
    taken = list(islice(findings, MAX_FINDINGS + 1))
    if len(taken) > MAX_FINDINGS:
        taken[-1] = DocumentFinding(code="more-problems", place=(), message="and more, not listed here")
    return taken


def render_field(place: FieldPlace) -> str:
    """A place as people write it: `checks[0].timeout_seconds`."""
    steps: list[str] = []
    for step in place:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{_render_key(step)}" if steps else _render_key(step))
    return "".join(steps)


def enclosing_field(field: str) -> str:
    """The field around a field; the root is the empty string."""
    shorter = _LAST_STEP.sub("", field)
    return shorter if len(shorter) < len(field) else ""


def _render_key(key: str) -> str:
    if len(key) > _LONGEST_STEP:
        key = key[:_LONGEST_STEP] + "…"
    if _BARE_KEY.fullmatch(key):
        return key
    return escape_unprintable(json.dumps(key, ensure_ascii=False))


_LONGEST_VALUE = 80
_MOST_DIGITS = 40
_LONGEST_KEY_TO_COMPARE = 100
_MOST_COMPARED = 200
_ALMOST = 0.6


def quote(text: str) -> str:
    """Text in double quotes, cut to a readable length; nothing in it can break the line or the terminal."""
    shown = text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
    return json.dumps(escape_unprintable(shown), ensure_ascii=False).replace("\\\\", "\\")


def describe(value: object) -> str:
    """What was found, in a few words, whatever it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {quote(value)}" if value else "empty text"
        case int():
            # str() of a huge integer is refused or slow.
            many = value.bit_length() > _MOST_DIGITS * 3
            return (
                f"an integer of about {value.bit_length() * 30103 // 100000 + 1} digits"
                if many
                else f"{value}"
            )
        case Decimal():
            text = str(value)
            return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
        case datetime() | date() | time():
            return f"a TOML date or time ({value.isoformat()})"
        case dict():
            return "a table" if value else "an empty table"
        case list() | tuple():
            return f"an array of {len(value)}" if value else "an empty array"
        case _:
            return f"a value of type {type(value).__name__}"


def expected_words(info: mi.Type) -> str:
    """What a type accepts, in a few words."""
    match info:
        case mi.Metadata(type=inner, extra=extra, extra_json_schema=schema):
            words = (extra or {}).get("expected") or (schema or {}).get("description")
            return str(words) if words else expected_words(inner)
        case mi.StrType():
            return _expected_text(info)
        case mi.IntType(ge=ge, le=le):
            return "a whole number" + _bounds(ge, le)
        case mi.BoolType():
            return "true or false"
        case mi.DecimalType():
            return "a decimal number such as 0.5"
        case mi.LiteralType(values=values):
            return join_choices(quote(str(value)) for value in values)
        case mi.VarTupleType(item_type=item) | mi.ListType(item_type=item):
            is_table = isinstance(strip_metadata(item), mi.StructType)
            return "an array of tables" if is_table else f"an array, each item {expected_words(item)}"
        case mi.UnionType():
            return _expected_union(info)
        case _:
            return "a table"


def join_choices(choices: Iterable[str]) -> str:
    """`a, b or c`."""
    listed = list(choices)
    return " or ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)


def nearest(word: str, known: Sequence[str], *, at_least: float = _ALMOST) -> str | None:
    """The known word that the given one is most like, if it is like any; the first few hundred are tried."""
    if len(word) > _LONGEST_KEY_TO_COMPARE:
        return None
    tried = [candidate for candidate in known[:_MOST_COMPARED] if len(candidate) <= _LONGEST_KEY_TO_COMPARE]
    folded = {candidate.casefold().replace("-", "_"): candidate for candidate in reversed(tried)}
    matches = difflib.get_close_matches(word.casefold().replace("-", "_"), list(folded), n=1, cutoff=at_least)
    return folded[matches[0]] if matches else None


def _expected_text(info: mi.StrType) -> str:
    low, high = info.min_length, info.max_length
    if low and high:
        return f"text of {low} to {high} characters"
    if low:
        return "text that is not empty"
    return f"text of at most {high} characters" if high else "text"


def _expected_union(info: mi.UnionType) -> str:
    options = [option for option in info.types if not isinstance(option, mi.NoneType)]
    structs = [option for option in options if isinstance(option, mi.StructType)]
    words = [expected_words(option) for option in options if not isinstance(option, mi.StructType)]
    tags = [quote(str(struct.tag)) for struct in structs if struct.tag is not None]
    if tags:
        words.append(f"a table with {structs[0].tag_field} = {join_choices(tags)}")
    elif structs:
        words.append("a table")
    return ", or ".join(words)


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None and high < 2**31:
        return f" from {low} to {high}"
    return "" if low is None else f", at least {low}"


_SHOWN = 5
_MOST_LISTED = 100

ProblemSeverity: TypeAlias = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to mend: the file, the line, the field, what was expected and found, and the fix."""

    code: str
    """Stable kebab-case name; documented in `docs/reference/lint.md`."""
    severity: ProblemSeverity
    """An error makes the contract unusable; a warning makes it worse than it could be."""
    file: str
    """Relative to the contract directory."""
    line: int | None = None
    """Counted from 1; left out if the problem is an absence."""
    field: str = ""
    """Dotted path of the field, such as `checks[0].timeout_seconds`."""
    message: str
    """What was expected and what was found."""
    hint: str = ""
    """What to do."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        field = f" {self.field}:" if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}:{field} {self.message}{hint} [{self.code}]"


def build_document_error(
    code: ErrorCode[ContractError], what: str, problems: Iterable[Problem], *, where: Path
) -> ContractError:
    """The error that lists everything that is wrong with a document, each with its fix."""
    listed = tuple(problems)
    lines = [f"  {problem}" for problem in listed[:_MOST_LISTED]]
    if len(listed) > len(lines):
        lines.append(f"  … and {len(listed) - len(lines)} more")
    noun = "problem" if len(listed) == 1 else "problems"
    message = f"{where}: expected a sound {what}, found {len(listed)} {noun}:"
    return code.error("\n".join([message, *lines]), details=listed)


def render_problems(what: str, problems: Sequence[Problem]) -> str:
    """The message of an error about a document: how many problems it has, and the first of them."""
    lines = [f"  {problem}" for problem in problems[:_SHOWN]]
    if len(problems) > len(lines):
        lines.append(f"  … and {len(problems) - len(lines)} more")
    noun = "problem" if len(problems) == 1 else "problems"
    return "\n".join([f"expected a sound {what}, found {len(problems)} {noun}:", *lines])
