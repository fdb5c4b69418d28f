"""Rules about the reference change: it is there, can be read, and keeps the contract's own rules (C13)."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.contract._lint._subject import Example, Finding, Subject, rule

_FILE = "reference.patch"


def _file(subject: Subject) -> str:
    return subject.contract.reference or _FILE


@rule("missing-reference", "warning", example="# no line with `reference = …`")
def missing_reference(subject: Subject) -> Iterator[Finding]:
    """There is no reference change.

    Why: certification shows that the contract can be satisfied by satisfying it (C13), and failures of a
    check are told from failures of the machine by the same check on the reference tree.

    Fix: add `reference = "reference.patch"`, a unified diff against the snapshot.
    """
    if subject.contract.reference is None:
        yield Finding(
            field="reference",
            message="expected a reference change, found none",
            hint="write the change once, and store `git diff` beside the contract",
        )


@rule("unreadable-reference", "error", example=Example(file=_FILE, text="not a patch\n"))
def unreadable_reference(subject: Subject) -> Iterator[Finding]:
    """The reference change is not a unified diff.

    Why: what cannot be read cannot be applied or compared with the statement.

    Fix: write it with `git diff --binary` in the snapshot.
    """
    if subject.patch_fault is not None:
        yield Finding(
            file=_file(subject),
            message=f"expected a unified diff, found: {subject.patch_fault}",
            hint="write it again with `git diff --binary`",
        )


@rule(
    "reference-breaks-policy",
    "error",
    example="""
    [policy]
    writable = ["docs/**"]
    """,
)
def reference_breaks_policy(subject: Subject) -> Iterator[Finding]:
    """The reference change touches what a change may not touch.

    Why: if the only known solution breaks the policy, no agent can satisfy the contract. A path is refused
    where `protected` matches it or `writable` does not; a `generated` path is never part of a change.

    Fix: widen `writable`, narrow `protected` or `generated`, or take the file out of the patch.
    """
    for path in subject.changed_paths:
        reason = _refusal(subject, path)
        if reason is not None:
            yield Finding(
                file=_file(subject),
                field=reason[0],
                message=f"expected a change that the policy allows, found {path!r}, which {reason[1]}",
                hint=f"correct {reason[0]} or the patch",
            )


def _refusal(subject: Subject, path: str) -> tuple[str, str] | None:
    if subject.generated.match_file(path):
        return "policy.generated", "is generated and never part of a change"
    if subject.protected.match_file(path):
        return "policy.protected", "is protected"
    if not subject.writable.match_file(path):
        return "policy.writable", "is not writable"
    return None


@rule(
    "reference-touches-oracle",
    "error",
    example=Example(
        file=_FILE,
        text="--- a/tests/test_wrap.py\n+++ b/tests/test_wrap.py\n@@ -1 +1 @@\n-old = 1\n+new = 1\n",
    ),
)
def reference_touches_oracle(subject: Subject) -> Iterator[Finding]:
    """The reference change touches a file that a check lays over the tree.

    Why: the oracle's file wins, so that part of the reference is never what is judged.

    Fix: leave test files out of the reference patch; they belong to the checks.
    """
    laid = {file.target: file.field for file in subject.oracle_files}
    for path in subject.changed_paths:
        if path in laid:
            yield Finding(
                file=_file(subject),
                field=f"{laid[path]}.to",
                message=f"expected a change apart from the oracle's files, found {path!r}",
                hint="remove the file from the patch",
            )


@rule(
    "reference-exceeds-limits",
    "error",
    example="""
    [policy]
    max_lines_changed = 1
    """,
)
def reference_exceeds_limits(subject: Subject) -> Iterator[Finding]:
    """The reference change is larger than the policy allows.

    Why: a bound that the known solution breaks forbids the solution.

    Fix: raise `max_files_changed` or `max_lines_changed`, with room for other honest solutions.
    """
    policy = subject.contract.policy
    for name, bound, found in (
        ("files", policy.max_files_changed, len(subject.changed_paths)),
        ("lines", policy.max_lines_changed, subject.lines_changed),
    ):
        if bound is not None and found > bound:
            yield Finding(
                field=f"policy.max_{name}_changed",
                message=f"expected at most {bound} {name} in the reference change, found {found}",
                hint="raise the bound, or make the reference smaller",
            )


@rule(
    "reference-exceeds-envelope",
    "warning",
    example="""
    [scoring]
    envelope = { lines = 1, files = 1 }
    """,
)
def reference_exceeds_envelope(subject: Subject) -> Iterator[Finding]:
    """The reference change is larger than the envelope that costs nothing.

    Why: the known solution would then lose points for its size (S6).

    Fix: set `scoring.envelope` to at least the size of the reference.
    """
    envelope = subject.contract.scoring.envelope
    for name, bound, found in (
        ("files", envelope.files, len(subject.changed_paths)),
        ("lines", envelope.lines, subject.lines_changed),
    ):
        if found > bound:
            yield Finding(
                field=f"scoring.envelope.{name}",
                message=f"expected an envelope for the reference change ({found} {name}), found {bound}",
                hint="widen the envelope",
            )


RULES = (
    missing_reference,
    unreadable_reference,
    reference_breaks_policy,
    reference_touches_oracle,
    reference_exceeds_limits,
    reference_exceeds_envelope,
)
