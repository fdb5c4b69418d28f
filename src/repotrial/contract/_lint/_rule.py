"""What a lint rule is: a pure function over a contract, with a name, a weight and its own documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from repotrial.contract._lint._subject import Subject
from repotrial.contract._loaded import CONTRACT_FILE
from repotrial.contract._problems import Problem, Severity


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
