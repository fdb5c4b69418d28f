"""The packages of a JavaScript change: from its own lock, from another tool's, or as of its day."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from repotrial._core.errors import MACHINE
from repotrial.authoring._base import CommitTree
from repotrial.authoring._ecosystem import ECOSYSTEMS
from repotrial.authoring._proof._node import apply_node
from repotrial.authoring._template import ContractDraft, render_contract
from repotrial.contract import Check, GitRepository
from repotrial.environment import lock_node_packages

_DAY = dt.datetime(2024, 5, 5, tzinfo=dt.UTC)
_MANIFEST = json.dumps({"devDependencies": {"semver": "^7.5.0"}})


class _Locker:
    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], dt.date | None]] = []

    def __call__(self, files: Mapping[str, bytes], cutoff: dt.date | None) -> bytes:
        self.asked.append((tuple(sorted(files)), cutoff))
        return b"made"


def _apply(place: Path, files: dict[str, str], locker: _Locker) -> tuple[ContractDraft, list[str]]:
    tree, staging = place / "tree", place / "staging"
    for folder in (tree, staging):
        folder.mkdir()
    for name, text in files.items():
        (tree / name).write_text(text, "utf-8")
    draft = ContractDraft(
        id="x",
        title="X",
        kind="bug-fix",
        ecosystem=next(each for each in ECOSYSTEMS if each.name == "javascript"),
        reference="reference.patch",
        repository=GitRepository(source="https://example.org/x", commit="4" * 40),
        check=Check(id="tests", gate="acceptance", run="node --test", baseline="fail"),
        protected=(),
        generated=(),
        base_commit="4" * 40,
        origin="",
        guesses=(),
    )
    head = CommitTree(root=tree, commit="4" * 40, tree_digest="")
    made, problems = apply_node(draft, head, staging, committed_at=_DAY, locker=locker)
    return made, [problem.code for problem in problems]


def test_the_projects_own_lock_is_taken_as_it_is(tmp_path: Path) -> None:
    locker = _Locker()
    draft, problems = _apply(tmp_path, {"package.json": _MANIFEST, "package-lock.json": "{}"}, locker)
    assert (locker.asked, problems) == ([], [])
    assert (tmp_path / "staging/package-lock.json").read_bytes() == b"{}"
    text = render_contract(draft)
    assert 'node = { lock = "package-lock.json", manifest = "package.json" }' in text
    assert "# guess: the project's own lock" in text


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("yarn.lock", (("package.json", "yarn.lock"), None), "the versions of yarn.lock"),
        ("pnpm-lock.yaml", (("package.json",), dt.date(2024, 6, 1)), "npm reads no pnpm-lock.yaml"),
        ("README", (("package.json",), dt.date(2024, 6, 1)), "packages as the registry had them"),
    ],
)
def test_another_tools_lock_or_the_day_decides(tmp_path: Path, name: str, asked: object, reason: str) -> None:
    locker = _Locker()
    draft, problems = _apply(tmp_path, {"package.json": _MANIFEST, name: "# yarn lockfile v1\n"}, locker)
    assert (locker.asked, problems) == ([asked], [])
    assert (tmp_path / "staging/package-lock.json").read_bytes() == b"made"
    assert reason in draft.guesses[-1].reason


@pytest.mark.parametrize("manifest", ["{}", "[]", "no JSON", '{"dependencies": []}'])
def test_a_project_without_packages_needs_no_lock(tmp_path: Path, manifest: str) -> None:
    draft, problems = _apply(tmp_path, {"package.json": manifest}, _Locker())
    assert (draft.has_node_lock, problems) == (False, [])


def test_a_registry_that_does_not_answer_leaves_a_draft_and_says_so(tmp_path: Path) -> None:
    class Silent(_Locker):
        def __call__(self, files: Mapping[str, bytes], cutoff: dt.date | None) -> bytes:
            del files, cutoff
            raise MACHINE.error("the registry does not answer")

    draft, problems = _apply(tmp_path, {"package.json": _MANIFEST}, Silent())
    assert (draft.has_node_lock, problems) == (False, ["draft-packages-unlocked"])
    assert list((tmp_path / "staging").iterdir()) == []


def test_npm_makes_a_lock_and_runs_no_script(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm on this machine")
    trap = tmp_path / "ran"
    scripts = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), f"touch {trap}")
    manifest = json.dumps({"name": "x", "version": "1.0.0", "scripts": scripts}).encode()
    lock = lock_node_packages(
        {"package.json": manifest}, variables={}, home=tmp_path, cutoff=dt.date(2024, 6, 1)
    )
    assert json.loads(lock)["lockfileVersion"] >= 2
    assert not trap.exists()
