"""What a draft of a Python project needs so that its tests run here: layout, packages, command."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.authoring._base import CommitTree
from repotrial.authoring._proof._layout import (
    PythonLayout,
    find_package_root,
    list_plugin_options,
    survey_layout,
)
from repotrial.authoring._proof._locks import LockedPackages, PackageLocker, choose_cutoff
from repotrial.authoring._proof._requirements import (
    drop_versions,
    find_requirement_name,
    list_known_imports,
    normalize_name,
    read_requirements,
)
from repotrial.authoring._python_tests import is_test_module
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.contract import Check, Problem

_FILES: Final = "environment"
_RESULTS: Final = '"$REPOTRIAL_RESULTS/junit.xml"'
_LOCK_FIELD: Final = "environment.python"
_RUNNER: Final = re.compile(rb"^pytest==(\d+)", re.MULTILINE)
_LEAST_RUNNER: Final = 7
"""The first major version of pytest that knows Python 3.11, the oldest that this program runs on."""


class PreparedPython(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a Python project."""

    layout: PythonLayout
    locked: LockedPackages | NotComputable | None
    """None where the author gave a lock."""
    cutoff: Guess | None = None


def prepare_python(
    head: CommitTree,
    base: CommitTree,
    *,
    test_files: Sequence[str],
    committed_at: dt.datetime,
    locker: PackageLocker | None,
) -> PreparedPython:
    """Read the layout, and lock the packages as of the day of the change.

    Args:
        head: The tree with the change: what it begins to need must be there.
        base: The tree on which the agent starts.
        test_files: The hidden tests.
        committed_at: When the change was made.
        locker: Resolves packages; None where the author gave a lock.
    """
    root = find_package_root(base, [path for path in test_files if is_test_module(path)] or test_files)
    layout = survey_layout(base, root, head=head)
    if locker is None:
        return PreparedPython(layout=layout, locked=None)
    texts = [text for path in test_files if path.endswith(".py") and (text := head.read_text(path))]
    declared = read_requirements(head, root, own_names=[layout.name] if layout.name else [])
    imported = [
        name for name in list_known_imports(texts) if normalize_name(name) != normalize_name(layout.name)
    ]
    tests = [*declared.tests, *_add_missing(("pytest", *imported), (*declared.runtime, *declared.tests))]
    attempts = (
        [*declared.runtime, *tests],
        [*declared.runtime, *drop_versions(tests)],
        [*declared.runtime, *_add_missing(("pytest", *imported), declared.runtime)],
    )
    cutoff, reason = choose_cutoff(committed_at)
    locked: LockedPackages | NotComputable = NotComputable(reason="nothing was tried")
    for wanted in attempts:
        locked = _lock(locker, wanted, cutoff=cutoff)
        if isinstance(locked, LockedPackages) and _is_runner_usable(locked):
            break
    if isinstance(locked, LockedPackages) and normalize_name(layout.name) in map(
        normalize_name, locked.names
    ):
        # The project is among its tests' packages: a release that is newer than the snapshot has the change.
        cutoff, reason = choose_cutoff(committed_at, is_exact=True)
        locked = _lock(locker, wanted, cutoff=cutoff)
    named = f" ({', '.join(declared.sources)})" if declared.sources else ""
    guess = Guess(field=_LOCK_FIELD, value=f"as of {cutoff}", reason=f"{reason}{named}")
    return PreparedPython(layout=layout, locked=locked, cutoff=guess)


def _is_runner_usable(locked: LockedPackages) -> bool:
    """Whether the runner knows this machine's Python: old projects pin one that does not even start."""
    found = _RUNNER.search(locked.data)
    return found is None or int(found[1]) >= _LEAST_RUNNER


def _lock(locker: PackageLocker, wanted: Sequence[str], *, cutoff: dt.date) -> LockedPackages | NotComputable:
    return locker.lock(tuple(sorted(dict.fromkeys(wanted))), cutoff=cutoff)


def _add_missing(names: Sequence[str], stated: Sequence[str]) -> list[str]:
    known = {find_requirement_name(line) for line in stated}
    return [name for name in names if normalize_name(name) not in known]


def apply_python(
    draft: ContractDraft, prepared: PreparedPython, staging: Path, test_files: Sequence[str]
) -> ContractDraft:
    """The draft with all of it, and the files that it names beside the contract."""
    layout, locked = prepared.layout, prepared.locked
    files: dict[str, str] = {}
    for number, (place, text) in enumerate(layout.files.items()):
        name = f"{_FILES}/{number}-{re.sub(r'[^A-Za-z0-9._-]', '_', place.rpartition('/')[2])}"
        (staging / name).parent.mkdir(exist_ok=True)
        (staging / name).write_text(text, encoding="utf-8", newline="\n")
        files[place] = name
    guesses = [*draft.guesses, *layout.guesses]
    plugins: tuple[str, ...] = ()
    lock = draft.python_lock
    if isinstance(locked, LockedPackages):
        lock = "requirements.lock"
        (staging / lock).write_bytes(locked.data)
        plugins = list_plugin_options(locked.names)
    if prepared.cutoff is not None and lock is not None:
        guesses.append(prepared.cutoff)
    check = _build_check(draft.check, layout, (*layout.options, *plugins), test_files)
    return msgspec.structs.replace(
        draft,
        check=check,
        guesses=tuple(guesses),
        python_lock=lock,
        variables={**draft.variables, **layout.variables},
        files=files,
    )


def _build_check(
    check: Check, layout: PythonLayout, options: Sequence[str], test_files: Sequence[str]
) -> Check:
    """The runner's command for drafts that are run: short failures, and no file keeps others from running."""
    at = f"{layout.root}/" if layout.root else ""
    targets = [path.removeprefix(at) for path in test_files if is_test_module(path)]
    words = [
        f"python -m pytest -q --tb=line --continue-on-collection-errors --junitxml={_RESULTS}",
        *options,
        *(shlex.quote(f"./{path}" if path.startswith("-") else path) for path in targets),
    ]
    return msgspec.structs.replace(check, run=" ".join(words), cwd=layout.root or ".")


def check_locked(prepared: PreparedPython) -> list[Problem]:
    """Whether the packages could be locked."""
    if not isinstance(prepared.locked, NotComputable):
        return []
    return [
        Problem(
            code="draft-packages-unlocked",
            severity="warning",
            file="contract.toml",
            field=_LOCK_FIELD,
            message=f"expected the packages of that time, found none: {prepared.locked.reason}",
            hint="make a lock by hand and give it with --python-lock FILE",
        )
    ]
