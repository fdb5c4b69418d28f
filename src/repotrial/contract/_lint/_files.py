"""Rules about paths: the candidate cannot reach the oracle, and the oracle is not handed to it (C6, C10)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import PurePosixPath

from repotrial._core.display import list_some
from repotrial.change import is_usable_glob
from repotrial.contract._contract import DirectoryRepository
from repotrial.contract._lint._subject import Finding, Subject, rule

_HOOKS = ("conftest.py", "pytest.ini", "sitecustomize.py", "usercustomize.py")
_SHOWN_PATHS = 3


@rule(
    "invalid-glob",
    "error",
    example="""
    [policy]
    protected = ["tests/[z-a].py"]
    """,
)
def invalid_glob(subject: Subject) -> Iterator[Finding]:
    """A pattern of the policy can never match.

    Why: a broken pattern, or one that starts with `#` and is therefore a comment, protects nothing while it
    looks as if it did.

    Fix: git's ignore rules apply; a literal `#` or `[` goes into brackets (`[#]`, `[[]`).
    """
    policy = subject.contract.policy
    lists = {
        "policy.writable": policy.writable,
        "policy.protected": policy.protected,
        "policy.generated": policy.generated,
        "policy.dependencies.manifests": policy.dependencies.manifests,
    }
    for field, patterns in lists.items():
        for index, pattern in enumerate(patterns):
            if not is_usable_glob(pattern):
                yield Finding(
                    field=f"{field}[{index}]",
                    message=f"expected a pattern that can match a path, found {pattern!r}",
                    hint="check brackets and ranges; '#' at the start makes a comment",
                )


@rule(
    "oracle-writable",
    "error",
    example="""
    [policy]
    writable = ["**"]
    protected = []
    """,
)
def oracle_writable(subject: Subject) -> Iterator[Finding]:
    """A file that a check lays over the candidate's tree may be written by the candidate.

    Why: both sides then own one path. The oracle's file wins, honest work on the path is lost, and a
    candidate can prepare the ground for the test it expects there.

    Fix: lay checks where the candidate may not write, or protect the directory they go to. In `writable`
    and `protected` later patterns win and `!` takes back.
    """
    open_paths: dict[str, list[str]] = {}
    for file in subject.oracle_files:
        if subject.is_open(file.target):
            open_paths.setdefault(file.field, []).append(file.target)
    for field, paths in open_paths.items():
        yield Finding(
            field=f"{field}.to",
            message=f"expected oracle files outside what the candidate may write, "
            f"found {list_some(paths, most=_SHOWN_PATHS)}",
            hint=f"add {posixpath.dirname(paths[0]) or paths[0]!s} to policy.protected, or lay the checks "
            "in a directory of their own",
        )


@rule(
    "oracle-shown",
    "error",
    example="""
    [[environment.files]]
    source = "checks/unit.json"
    target = "/etc/unit.json"
    """,
)
def oracle_shown(subject: Subject) -> Iterator[Finding]:
    """A hidden file is also part of what the agent gets.

    Why: check files, inventories and the reference change are never shown to an agent (C6, P6); a
    repository directory, a configuration file, a setup script or an artifact that includes them shows them.

    Fix: keep hidden files in a directory of their own, such as `checks/`.
    """
    hidden = {PurePosixPath(path): (name, path) for name, path in _iter_hidden(subject)}
    around = {step: found for place, found in hidden.items() for step in (place, *place.parents)}
    for field, shown in _iter_handed_over(subject):
        place = PurePosixPath(shown)
        steps = (hidden[step] for step in place.parents if step in hidden)
        name, path = around.get(place) or next(steps, ("", ""))
        if path:
            yield Finding(
                field=field,
                message="expected nothing hidden among the agent's files, "
                f"found {path!r} ({name}) in {shown!r}",
                hint="move one of them",
            )


def _iter_hidden(subject: Subject) -> Iterator[tuple[str, str]]:
    for field, check in subject.iter_checks():
        if check.inventory is not None:
            yield f"{field}.inventory", check.inventory
        for name, overlays in (("files", check.files), ("negative", check.negative)):
            for index, overlay in enumerate(overlays):
                yield f"{field}.{name}[{index}].from", overlay.source
    if subject.contract.reference is not None:
        yield "reference", subject.contract.reference


def _iter_handed_over(subject: Subject) -> Iterator[tuple[str, str]]:
    contract = subject.contract
    yield "statement", contract.statement
    if isinstance(contract.repository, DirectoryRepository):
        yield "repository.source", contract.repository.source
    for index, file in enumerate(contract.environment.files):
        yield f"environment.files[{index}].source", file.source
    for index, step in enumerate(contract.setup):
        for place, script in enumerate(step.scripts):
            yield f"setup[{index}].scripts[{place}]", script
    for index, artifact in enumerate(contract.environment.artifacts):
        if "://" not in artifact.source:
            yield f"environment.artifacts[{index}].source", artifact.source


@rule(
    "judge-hooks-writable",
    "warning",
    example="""
    ecosystem = "python"

    [policy]
    writable = ["**"]
    protected = ["tests/**"]
    """,
)
def judge_hooks_writable(subject: Subject) -> Iterator[Finding]:
    """The candidate may write files that the Python test runner executes by itself.

    Why: a `conftest.py` or `sitecustomize.py` of a few lines can turn every test green from inside.

    Fix: protect them wherever they may lie: `"**/conftest.py"`, `"**/sitecustomize.py"` and so on.
    """
    judges = [
        check
        for _, check in subject.iter_checks()
        if check.gate == "acceptance" and check.judge == "in-process"
    ]
    if not subject.is_python or not judges:
        return
    laid = {file.target for file in subject.oracle_files}
    directories = {"."} | {posixpath.dirname(path) for path in laid}
    found = sorted(
        path
        for directory in directories
        for path in (posixpath.normpath(posixpath.join(directory, hook)) for hook in _HOOKS)
        if path not in laid and subject.is_open(path)
    )
    if found:
        yield Finding(
            field="policy.protected",
            message=f"expected files that steer the test runner to be protected, "
            f"found that the candidate may write {list_some(found, most=_SHOWN_PATHS)}",
            hint="add " + ", ".join(f'"**/{hook}"' for hook in _HOOKS),
        )


RULES = (invalid_glob, oracle_writable, oracle_shown, judge_hooks_writable)
