"""Rules on the change (C7, C10): what it may touch, and how large it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from repotrial.change import GITLINK, SYMLINK, ChangedFile, ChangeView, PathRules
from repotrial.contract import Policy, RuleSeverity

RuleName: TypeAlias = Literal[
    "protected", "writable", "change_size", "generated", "dependencies", "tools", "network", "limits"
]

_NOT_WRITABLE = "expected a path that the contract lets change, found another"
_GENERATED = "expected no generated file in the change, found one"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One broken rule of the policy."""

    rule: RuleName
    """Its key in `policy.violations`."""
    severity: RuleSeverity
    """What the contract says that it weighs."""
    path: str | None = None
    """The file, as the trace writes names; None where the rule is about the whole change."""
    message: str
    """What was expected and what was found."""


def check_change(view: ChangeView, policy: Policy) -> tuple[Violation, ...]:
    """Every rule that the change breaks, rule by rule, in the order of the patch.

    Raises:
        POLICY_GLOB: a glob of the policy means nothing.
    """
    protected, writable, generated = (
        PathRules(globs) for globs in (policy.protected, policy.writable, policy.generated)
    )
    weights = policy.violations
    return (
        *(
            Violation(rule="protected", severity=weights.protected, path=path, message=message)
            for path, message in _iter_protected(view, protected)
        ),
        *(
            Violation(rule="writable", severity=weights.writable, path=path, message=_NOT_WRITABLE)
            for path in _iter_paths(view)
            # What is taken back stays taken back under another spelling.
            if not (writable.covers(path) and writable.covers_folded(path))
        ),
        *(
            Violation(rule="change_size", severity=weights.change_size, message=message)
            for message in _iter_sizes(view, policy)
        ),
        *(
            Violation(rule="generated", severity=weights.generated, path=path, message=_GENERATED)
            for path in _iter_paths(view)
            if generated.covers(path)
        ),
    )


def is_protected(file: ChangedFile, rules: PathRules) -> bool:
    """Whether any of it touches what the rules cover, or leads around them."""
    return any(True for _ in _iter_file_faults(file, rules))


def _iter_paths(view: ChangeView) -> Iterator[str]:
    yield from dict.fromkeys(path for file in view.files for path in file.touched_paths)


def _iter_protected(view: ChangeView, rules: PathRules) -> Iterator[tuple[str, str]]:
    yield from dict.fromkeys(fault for file in view.files for fault in _iter_file_faults(file, rules))


def _iter_file_faults(file: ChangedFile, rules: PathRules) -> Iterator[tuple[str, str]]:
    for path in file.touched_paths:
        if rules.covers(path):
            yield path, "expected protected files untouched, found a change"
        elif rules.covers_folded(path):
            yield path, "expected no other spelling of a protected path, found one"
    if file.mode in {SYMLINK, GITLINK} and rules.may_reach_through(file.path, file.link_target):
        yield file.path, "expected no way around protected paths, found a link above them"


def _iter_sizes(view: ChangeView, policy: Policy) -> Iterator[str]:
    for limit, found, unit in (
        (policy.max_files_changed, view.file_count, "files changed"),
        (policy.max_lines_changed, view.line_count, "lines added and removed"),
        (policy.max_binary_bytes, view.binary_bytes, "bytes of binary content"),
    ):
        if limit is not None and found > limit:
            yield f"expected at most {limit} {unit}, found {found}"
