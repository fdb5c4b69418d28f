"""`contract.toml` as a person would write it: in order, with comments, guesses marked as guesses."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from repotrial.authoring._ecosystem import EcosystemProfile
from repotrial.contract import CONTRACT_SCHEMA, ArchiveRepository, Check, GitRepository, ResultFile, TaskKind

_TomlValue: TypeAlias = "bool | int | str | Sequence[_TomlValue] | Mapping[str, _TomlValue]"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
# Controls, invisible and direction-changing characters, line and paragraph separators: valid in a TOML
# string, but they make the file show something else than it says.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
_LINE_WIDTH = 100


def render_string(text: str) -> str:
    """A TOML string on one line. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    if text.isprintable() and "'" not in text and ('"' in text or "\\" in text):
        return f"'{text}'"  # a literal string: command lines stay readable
    return '"' + "".join(_escape(character) for character in text) + '"'


def render_key(name: str) -> str:
    """A key: bare where TOML allows it."""
    return name if _BARE_KEY.fullmatch(name) else render_string(name)


def render_value(value: _TomlValue) -> str:
    """A value as it stands after `=`: arrays that would be too long take one line for each item."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return render_string(value)
        case Mapping():
            return _render_inline_table(value)
        case Sequence():
            return _render_array([render_value(item) for item in value])


def render_comment(text: str) -> str:
    """`text` as comment lines; nothing in it can end the comment."""
    lines = "".join(_printable(character) for character in text).splitlines() or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _escape(character: str) -> str:
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    category = unicodedata.category(character)
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    if category not in _ESCAPED_CATEGORIES:
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - last 4-digit code point


def _printable(character: str) -> str:
    if character == "\n":
        return character
    if unicodedata.category(character) in {*_ESCAPED_CATEGORIES, "Cs"}:
        return " "
    return character


def _render_array(items: list[str]) -> str:
    line = "[" + ", ".join(items) + "]"
    if len(line) <= _LINE_WIDTH and "\n" not in line:
        return line
    return "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _render_inline_table(table: Mapping[str, _TomlValue]) -> str:
    if not table:
        return "{}"
    return "{ " + ", ".join(f"{render_key(key)} = {render_value(item)}" for key, item in table.items()) + " }"


_COMMENT_COLUMN = 44
_PAGE_WIDTH = 100
_DEFAULT_PROTOCOLS = GitRepository(source="x", commit="").protocols


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """A value that was not stated: the author should look at it."""

    field: str
    """Dotted path in `contract.toml`."""
    value: str
    reason: str
    is_seen: bool = False
    """Whether it is no guess but what happened when the tests were run."""


class ContractDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a contract before its author has written it."""

    id: str
    title: str
    kind: TaskKind
    ecosystem: EcosystemProfile | None
    reference: str | None
    repository: GitRepository | ArchiveRepository
    check: Check
    protected: tuple[str, ...]
    generated: tuple[str, ...]
    base_commit: str
    """The commit on which the agent starts."""
    origin: str
    """Where the draft comes from, for people."""
    guesses: tuple[Guess, ...]
    has_node_lock: bool = False
    """Whether `package-lock.json` and `package.json` lie beside the contract."""
    python_lock: str | None = None
    """A requirements file with hashes, beside the contract."""
    variables: Mapping[str, str] = {}
    """What the project needs beside the ecosystem's own."""
    files: Mapping[str, str] = {}
    """By place inside the sandbox: files beside the contract that building the project would make."""


class _Page:
    """Lines of TOML, with the reason beside each guess."""

    def __init__(self, guesses: Sequence[Guess]) -> None:
        self._lines: list[str] = []
        self._reasons = {
            guess.field: guess.reason if guess.is_seen else f"guess: {guess.reason}" for guess in guesses
        }
        self._prefix = ""

    def note(self, text: str) -> None:
        self._lines.append(render_comment(text))

    def offer(self, explanation: str, toml: str) -> None:
        """Lines that are TOML once the mark of the comment is taken away; what explains them stands above."""
        self.note(explanation)
        self.note(toml)

    def blank(self) -> None:
        self._lines.append("")

    def table(self, header: str, *, field: str) -> None:
        """Begin a table; its keys are the fields below `field`."""
        self._lines += ["", header]
        self._prefix = f"{field}."

    def entry(self, key: str, value: _TomlValue, *, comment: str = "") -> None:
        """One key; its comment stands beside it where both are short, and above it otherwise."""
        line = f"{render_key(key)} = {render_value(value)}"
        reason = self._reasons.get(self._prefix + key)
        text = " ".join((reason or comment).split())
        if not text:
            self._lines.append(line)
        elif "\n" in line or len(line) >= _COMMENT_COLUMN or _COMMENT_COLUMN + len(text) > _PAGE_WIDTH:
            self._lines += [render_comment("\n".join(textwrap.wrap(text, _PAGE_WIDTH))), line]
        else:
            self._lines.append(f"{line:<{_COMMENT_COLUMN}}{render_comment(text)}")

    def render(self) -> str:
        return "\n".join(self._lines) + "\n"


def render_contract(draft: ContractDraft) -> str:
    """The text of `contract.toml`."""
    page = _Page(draft.guesses)
    page.note(
        f"{draft.origin}\n"
        "A comment that begins with 'guess' marks what was not stated: read it, correct it, then run\n"
        "`repotrial contract check` and `repotrial contract lock`."
    )
    page.blank()
    _write_head(page, draft)
    _write_repository(page, draft.repository)
    _write_environment(page, draft)
    _write_check(page, draft.check)
    _write_policy(page, draft)
    return page.render()


def _write_head(page: _Page, draft: ContractDraft) -> None:
    page.entry("schema", CONTRACT_SCHEMA)
    page.entry("id", draft.id)
    page.entry("title", draft.title, comment="the agent reads it first, above the statement")
    page.entry("kind", draft.kind)
    if draft.ecosystem is not None:
        page.entry("ecosystem", draft.ecosystem.name)
    page.entry("statement", "statement.md", comment="what the agent is told")
    if draft.reference is not None:
        page.entry("reference", draft.reference, comment="a change that satisfies the contract; never shown")
    page.blank()
    page.offer(
        "What removes doubt about the statement; the agent is told this too.",
        "[clarify]\n"
        'modules = ["where/the/change/belongs"]\n'
        'behavior = ["one sentence for each thing that must hold afterwards"]',
    )


def _write_repository(page: _Page, repository: GitRepository | ArchiveRepository) -> None:
    page.table("[repository]", field="repository")
    match repository:
        case GitRepository():
            page.entry("kind", "git")
            page.entry("source", repository.source)
            page.entry("commit", repository.commit)
            if repository.protocols != _DEFAULT_PROTOCOLS:
                page.entry("protocols", repository.protocols)
        case ArchiveRepository():
            page.entry("kind", "archive", comment="one tree, without any history")
            page.entry("source", repository.source)
            if repository.digest is not None:
                page.entry("digest", repository.digest)


def _write_environment(page: _Page, draft: ContractDraft) -> None:
    page.table("[environment]", field="environment")
    page.entry("image", "host", comment="or an image with its digest")
    if draft.ecosystem is None:
        return
    page.entry("tools", draft.ecosystem.tools)
    page.entry("variables", {**draft.ecosystem.variables, **draft.variables})
    if draft.files:
        page.entry("files", [{"source": file, "target": place} for place, file in draft.files.items()])
    match draft.ecosystem.name:
        case "python" if draft.python_lock is not None:
            page.entry("python", {"lock": draft.python_lock})
        case "python":
            page.offer(
                "If tests need packages, from a file with hashes:", 'python = { lock = "requirements.lock" }'
            )
        case "javascript" if draft.has_node_lock:
            page.entry("node", {"lock": "package-lock.json", "manifest": "package.json"})
        case "javascript":
            page.offer(
                "If tests need packages:",
                'node = { lock = "package-lock.json", manifest = "package.json" }',
            )
        case "rust" | "go" | "c":
            page.note("Dependencies of the tests: as [[environment.artifacts]], or made by a [[setup]] step.")


def _write_check(page: _Page, check: Check) -> None:
    page.table("[[checks]]", field="checks[0]")
    page.entry("id", check.id)
    page.entry("gate", check.gate)
    if check.layer is not None:
        page.entry("layer", check.layer)
    page.entry("run", check.run or "")
    if check.cwd != ".":
        page.entry("cwd", check.cwd)
    page.entry("results", [_build_result(result) for result in check.results])
    if check.inventory is not None:
        page.entry("inventory", check.inventory)
    else:
        page.offer(
            "The test ids that must pass, known after a first run, in a file of this form:\n"
            '{"fail_to_pass": ["…"], "pass_to_pass": ["…"]}',
            f'inventory = "checks/{check.id}.json"',
        )
    if check.baseline is not None:
        page.entry("baseline", check.baseline)
    if check.timeout_seconds is not None:
        page.entry("timeout_seconds", check.timeout_seconds)
    for overlay in check.files:
        page.table("[[checks.files]]", field="checks[0].files[0]")
        page.note("Laid over the candidate's tree, last; the agent never sees these files.")
        page.entry("from", overlay.source)
        page.entry("to", overlay.target)
        if overlay.delete:
            page.entry("delete", overlay.delete)
    if not check.files:
        page.offer(
            "Tests of your own, which the agent never sees, go beside the contract:",
            f'[[checks.files]]\nfrom = "checks/{check.id}"\nto = "."',
        )


def _build_result(result: ResultFile) -> dict[str, _TomlValue]:
    table: dict[str, _TomlValue] = {"format": result.format}
    if result.path is not None:
        table["path"] = result.path
    return table


def _write_policy(page: _Page, draft: ContractDraft) -> None:
    page.table("[policy]", field="policy")
    page.entry("network", "none")
    page.entry("writable", ["**"], comment="what the change may touch")
    if draft.protected:
        page.entry("protected", draft.protected)
    if draft.generated:
        page.entry("generated", draft.generated)
    if draft.ecosystem is not None and draft.ecosystem.manifests:
        page.table("[policy.dependencies]", field="policy.dependencies")
        page.entry("rule", "declared-only")
        page.entry("manifests", draft.ecosystem.manifests)
    page.table("[scoring]", field="scoring")
    page.note('Or a check with gate = "build": types, lint, a build.')
    page.entry("build_gate", "none: the tests are the only check")
