"""Lint: what a schema cannot see. Pure rules, one small module for each family; nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.contract._contract import LoadedContract
from repotrial.contract._lint import (
    _checks,
    _files,
    _inventories,
    _leaks,
    _limits,
    _pins,
    _references,
    _secrets,
    _statements,
)
from repotrial.contract._lint._subject import LintRule, Subject
from repotrial.contract._problems import Problem

_FAMILIES = (_pins, _checks, _inventories, _files, _references, _leaks, _statements, _secrets, _limits)


def iter_rules() -> Iterator[LintRule]:
    """Every rule, family by family."""
    for family in _FAMILIES:
        yield from family.RULES


def lint_contract(loaded: LoadedContract) -> list[Problem]:
    """Everything that the rules find in a loaded contract, by file and line."""
    return loaded.find_once(_apply_rules)


def _apply_rules(loaded: LoadedContract) -> list[Problem]:
    subject = Subject(loaded)
    problems = [problem for rule in iter_rules() for problem in rule.iter_problems(subject)]
    return sorted(problems, key=_place)


def _place(problem: Problem) -> tuple[str, int, str, str]:
    return problem.file, problem.line or 0, problem.code, problem.field
