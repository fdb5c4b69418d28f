"""What the rules look at: the loaded contract, and what several of them derive from it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from repotrial._core.errors import AgentError
from repotrial.change import PATCH_UNREADABLE, PatchedFile, compile_globs, is_usable_glob, scan_patch
from repotrial.contract._contract import CONTRACT_FILE, Contract, LoadedContract
from repotrial.contract._oracle import Check, Overlay
from repotrial.contract._rules_files import pins_below

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
import inspect
from collections.abc import Callable

from repotrial.contract._problems import Problem, Severity


@dataclass(frozen=True, kw_only=True)
class OracleFile:
    """One file that a check lays over the candidate's tree."""

    field: str
    """The overlay that brings it."""
    source: str
    """Beside the contract."""
    target: str
    """In the workspace."""


@dataclass(frozen=True, kw_only=True)
class ShownText:
    """A text that the agent gets to read (P6)."""

    file: str
    field: str
    text: str

    def line_number(self, index: int) -> int | None:
        """The place of the text's line `index`; fields of `contract.toml` are located by their path."""
        return None if self.file == CONTRACT_FILE else index + 1


@dataclass(frozen=True)
class Subject:
    """A loaded contract under examination."""

    loaded: LoadedContract

    @property
    def contract(self) -> Contract:
        return self.loaded.contract

    def iter_checks(self) -> Iterator[tuple[str, Check]]:
        """Every check with its field path."""
        for index, check in enumerate(self.contract.checks):
            yield f"checks[{index}]", check

    @cached_property
    def _reading(self) -> tuple[tuple[PatchedFile, ...], str | None]:
        if self.loaded.reference is None:
            return (), None
        try:
            files = tuple(file for file in scan_patch(self.loaded.reference) if file.paths)
        except AgentError as error:
            if error.code != PATCH_UNREADABLE:
                raise
            return (), error.message
        return files, None if files else "expected a file header ('--- a/…', '+++ b/…'), found none"

    @property
    def changed_files(self) -> tuple[PatchedFile, ...]:
        """The reference change; empty if there is none, or none that can be read."""
        return self._reading[0]

    @property
    def patch_fault(self) -> str | None:
        """Why the reference change cannot be read; None if it can, or if there is none."""
        return self._reading[1]

    @cached_property
    def changed_paths(self) -> tuple[str, ...]:
        """Every path that the reference change touches, once, in order."""
        return tuple(dict.fromkeys(path for file in self.changed_files for path in file.paths))

    @property
    def lines_changed(self) -> int:
        return sum(len(file.added) + len(file.removed) for file in self.changed_files)

    @cached_property
    def writable(self) -> GitIgnoreSpec:
        return _compile(self.contract.policy.writable)

    @cached_property
    def protected(self) -> GitIgnoreSpec:
        return _compile(self.contract.policy.protected)

    @cached_property
    def generated(self) -> GitIgnoreSpec:
        return _compile(self.contract.policy.generated)

    def is_open(self, path: str) -> bool:
        """Whether the policy lets a change touch `path`."""
        return self.writable.match_file(path) and not self.protected.match_file(path)

    @property
    def is_python(self) -> bool:
        """Whether the harness can derive twins of the tests itself, which it does for Python alone."""
        if self.contract.ecosystem is not None:
            return self.contract.ecosystem == "python"
        return self.contract.environment.python is not None

    @cached_property
    def oracle_files(self) -> tuple[OracleFile, ...]:
        return tuple(
            file
            for field, check in self.iter_checks()
            for name, overlays in (("files", check.files), ("negative", check.negative))
            for index, overlay in enumerate(overlays)
            for file in self._iter_overlay(f"{field}.{name}[{index}]", overlay)
        )

    def _iter_overlay(self, field: str, overlay: Overlay) -> Iterator[OracleFile]:
        target = posixpath.normpath(overlay.target)
        for pin in pins_below(overlay.source, self.loaded.files):
            rest = posixpath.relpath(pin.path, overlay.source)
            yield OracleFile(
                field=field, source=pin.path, target=posixpath.normpath(posixpath.join(target, rest))
            )

    @cached_property
    def shown(self) -> tuple[ShownText, ...]:
        contract = self.contract
        fields = [("title", contract.title)]
        for name, texts in (("behavior", contract.clarify.behavior), ("hints", contract.clarify.hints)):
            fields += [(f"clarify.{name}[{index}]", text) for index, text in enumerate(texts)]
        return (
            ShownText(file=contract.statement, field="", text=self.loaded.statement),
            *(ShownText(file=CONTRACT_FILE, field=field, text=text) for field, text in fields),
        )


def _compile(patterns: Iterable[str]) -> GitIgnoreSpec:
    """Globs that mean nothing match nothing; `invalid-glob` reports them."""
    return compile_globs(pattern for pattern in patterns if is_usable_glob(pattern))


def is_inside(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it, both relative to the same root."""
    path, directory = posixpath.normpath(path), posixpath.normpath(directory)
    return directory in {".", path} or path.startswith(directory + "/")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule says about one place; the rule's own name and severity are added to it."""

    message: str
    """What was expected and what was found."""
    hint: str
    field: str = ""
    file: str = CONTRACT_FILE
    line: int | None = None
    """Left out for fields of `contract.toml`, which are located by their path."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A fragment that makes the rule speak when it replaces part of a sound contract."""

    text: str
    file: str = CONTRACT_FILE
    """`contract.toml` (a fragment to merge), `statement.md` or `reference.patch` (the whole file)."""


@dataclass(frozen=True, kw_only=True)
class LintRule:
    """One rule, as `docs/reference/lint.md` shows it."""

    code: str
    """Stable kebab-case name."""
    severity: Severity
    docstring: str
    """What the rule finds, why it matters, and the fix."""
    example: Example
    find: Callable[[Subject], Iterator[Finding]]

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.docstring.partition("\n\n")[0].split())

    def iter_problems(self, subject: Subject) -> Iterator[Problem]:
        for finding in self.find(subject):
            is_field = finding.file == CONTRACT_FILE and finding.line is None
            yield Problem(
                code=self.code,
                severity=self.severity,
                file=finding.file,
                line=subject.loaded.locate(finding.field) if is_field else finding.line,
                field=finding.field,
                message=finding.message,
                hint=finding.hint,
            )


def rule(
    code: str, severity: Severity, *, example: Example | str
) -> Callable[[Callable[[Subject], Iterator[Finding]]], LintRule]:
    """Turn a function into a rule; its docstring is the rule's documentation."""

    def wrap(find: Callable[[Subject], Iterator[Finding]]) -> LintRule:
        return LintRule(
            code=code,
            severity=severity,
            docstring=inspect.cleandoc(find.__doc__ or ""),
            example=example if isinstance(example, Example) else Example(text=inspect.cleandoc(example)),
            find=find,
        )

    return wrap
