"""From a repository with history to a contract that loads, locks, and holds what the change was."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest

from repotrial.api import check_contract
from repotrial.authoring import (
    CommitContract,
    CreatedContract,
    NewContract,
    create_contract,
    create_contract_from_commit,
    lock_contract,
    verify_lock,
)
from repotrial.contract import LoadedContract, lint_contract, load_contract
from repotrial.source import compute_tree_digest, materialize_snapshot
from support.errors import raises_code
from support.repositories import RepositoryMaker, run_git

_WRAP = "def fill(text, width):\n    return [text[at : at + width] for at in range(0, len(text), width)]\n"
_WRAP_FIXED = (
    "from textkit.cells import cell_width\n\n\n"
    "def fill(text, width):\n    return list(split_cells(text, width, cell_width))\n"
)
_TEST = "from textkit.wrap import fill\n\n\ndef test_narrow():\n    assert fill('abcd', 2) == ['ab', 'cd']\n"
_TEST_CHANGED = _TEST + "\n\ndef test_wide():\n    assert fill('日本', 2) == ['日', '本']\n"
_BASE: dict[str | bytes, str | bytes] = {
    "pyproject.toml": '[project]\nname = "textkit"\n',
    "README.md": "Text for terminals.\n",
    "textkit/__init__.py": "",
    "textkit/wrap.py": _WRAP,
    "textkit/old.py": "gone = True\n",
    "tests/test_wrap.py": _TEST,
    "tests/test_old.py": "def test_gone(): ...\n",
    "tests/data/blob.bin": b"\x00\x01\x02",
    "tools/run.sh": "#!/bin/sh\n",
}
_MESSAGE = """\
fix: fill() breaks East Asian text (#42)

Wide characters count as one column, so lines come out too wide.
Fixed by counting columns with the new cell_width.

Fixes #41
Signed-off-by: A Developer <developer@example.org>
"""


@pytest.fixture
def project(tmp_path: Path) -> RepositoryMaker:
    """A small Python project whose second commit adds, changes, renames and removes product and tests."""
    maker = RepositoryMaker(tmp_path / "textkit")
    maker.commit(_BASE, message="Start")
    for path in ("textkit/old.py", "tests/test_old.py"):
        (maker.path / path).unlink()
    (maker.path / "tools/run.sh").chmod(0o755)
    (maker.path / "README.md").rename(maker.path / "READ ME.md")
    maker.commit(
        {
            "textkit/wrap.py": _WRAP_FIXED,
            "textkit/cells.py": "def cell_width(character):\n    return 2 if character > '\\u1100' else 1\n",
            "textkit/table.bin": bytes(range(256)),
            "tests/test_wrap.py": _TEST_CHANGED,
            "tests/test_cells.py": "class TestCells:\n    def test_wide(self): ...\n",
            "tests/data/blob.bin": b"\x00\xff",
            'tests/odd name\'s [x] "ä".txt': "data\n",
        },
        message=_MESSAGE,
    )
    return maker


def _from_commit(project: RepositoryMaker, directory: Path, *, is_embedded: bool = False) -> CreatedContract:
    return create_contract_from_commit(
        CommitContract(
            source=str(project.path), directory=directory, revision="HEAD", is_embedded=is_embedded
        )
    )


def _lay_checks(loaded: LoadedContract, workspace: Path) -> None:
    for check in loaded.contract.checks:
        for overlay in check.files:
            for path in overlay.delete:
                (workspace / path).unlink()
            shutil.copytree(loaded.directory / overlay.source, workspace / overlay.target, dirs_exist_ok=True)


@pytest.mark.parametrize("is_embedded", [False, True], ids=["named", "embedded"])
def test_reference_and_checks_together_are_the_merged_change(
    project: RepositoryMaker, tmp_path: Path, *, is_embedded: bool
) -> None:
    _from_commit(project, tmp_path / "contract", is_embedded=is_embedded)
    loaded = load_contract(tmp_path / "contract")
    workspace = tmp_path / "workspace"
    materialize_snapshot(loaded.contract.repository, base=loaded.directory, into=workspace)
    assert loaded.reference is not None
    run_git(workspace, "apply", "--check", "-", stdin=loaded.reference)
    run_git(workspace, "apply", "-", stdin=loaded.reference)
    _lay_checks(loaded, workspace)
    merged = tmp_path / "merged"
    run_git(project.path, "worktree", "add", "-q", "--detach", str(merged), "HEAD")
    (merged / ".git").unlink()
    assert compute_tree_digest(workspace) == compute_tree_digest(merged)


@pytest.mark.parametrize("is_embedded", [False, True], ids=["named", "embedded"])
def test_the_workspace_holds_nothing_of_the_merged_change(
    project: RepositoryMaker, tmp_path: Path, *, is_embedded: bool
) -> None:
    _from_commit(project, tmp_path / "contract", is_embedded=is_embedded)
    loaded = load_contract(tmp_path / "contract")
    workspace = tmp_path / "workspace"
    materialize_snapshot(loaded.contract.repository, base=loaded.directory, into=workspace)
    seen = b"".join(
        str(path.relative_to(workspace)).encode() + b"\0" + path.read_bytes()
        for path in sorted(workspace.rglob("*"))
        if path.is_file()
    )
    head = project.git("rev-parse", "HEAD").strip()
    for secret in (b"cell_width", b"split_cells", b"test_wide", b"cells.py", b"odd name", b"READ ME", head):
        assert secret not in seen
    assert not (workspace / ".git").exists()
    names = {str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file()}
    assert names == set(_BASE)


def test_the_embedded_archive_is_the_same_bytes_each_time(project: RepositoryMaker, tmp_path: Path) -> None:
    archives = []
    for name in ("one", "two"):
        _from_commit(project, tmp_path / name, is_embedded=True)
        archives.append((tmp_path / name / "repository.tar").read_bytes())
    assert archives[0] == archives[1]
    assert project.git("rev-parse", "HEAD").strip() not in archives[0]


def test_the_draft_says_what_the_source_shows(project: RepositoryMaker, tmp_path: Path) -> None:
    created = _from_commit(project, tmp_path / "contract")
    loaded = load_contract(tmp_path / "contract")
    contract = loaded.contract
    assert (created.id, contract.id) == ("textkit-fill-breaks-east-asian-text",) * 2
    assert contract.title == "fill() breaks East Asian text"
    assert (contract.kind, contract.ecosystem) == ("bug-fix", "python")
    assert created.base_commit == project.git("rev-parse", "HEAD~1").decode().strip()
    assert loaded.inventories["tests"].fail_to_pass == (
        "tests.test_cells.TestCells::test_wide",
        "tests.test_wrap::test_wide",
    )
    assert loaded.inventories["tests"].pass_to_pass == ("tests.test_wrap::test_narrow",)
    [overlay] = contract.checks[0].files
    assert overlay.delete == ("tests/test_old.py",)
    assert "Signed-off-by" not in loaded.statement
    assert "#41" not in loaded.statement
    assert set(created.files) == {
        "contract.toml",
        "statement.md",
        "reference.patch",
        "checks/tests.json",
        "checks/tests/tests/test_wrap.py",
        "checks/tests/tests/test_cells.py",
        "checks/tests/tests/data/blob.bin",
        'checks/tests/tests/odd name\'s [x] "ä".txt',
    }


def test_lines_that_give_the_solution_away_are_reported(project: RepositoryMaker, tmp_path: Path) -> None:
    created = _from_commit(project, tmp_path / "contract")
    lines = (tmp_path / "contract/statement.md").read_text().splitlines()
    leaks = {(problem.code, lines[(problem.line or 1) - 1]) for problem in created.problems}
    told = "Fixed by counting columns with the new cell_width."
    assert {("draft-tells-solution", told), ("draft-names-identifier", told)} <= leaks


def test_the_title_is_left_for_the_author_unless_it_is_given(
    project: RepositoryMaker, tmp_path: Path
) -> None:
    created = _from_commit(project, tmp_path / "drafted")
    assert [problem.field for problem in created.problems if problem.code == "draft-title-message"] == [
        "title"
    ]
    options = CommitContract(
        source=str(project.path), directory=tmp_path / "named", revision="HEAD", title="Lines are too wide"
    )
    codes = {problem.code for problem in create_contract_from_commit(options).problems}
    assert "draft-title-message" not in codes


@pytest.mark.parametrize("text", ["pytest\n", "pytest==8.0.0\n"])
def test_a_requirements_file_without_hashes_makes_no_contract(
    project: RepositoryMaker, tmp_path: Path, text: str
) -> None:
    (tmp_path / "tests.lock").write_text(text)
    options = CommitContract(
        source=str(project.path),
        directory=tmp_path / "contract",
        revision="HEAD",
        python_lock=tmp_path / "tests.lock",
    )
    with raises_code("contract-option-invalid", match=r"tests\.lock: expected .*line 1: pytest"):
        create_contract_from_commit(options)
    assert not (tmp_path / "contract").exists()


def test_a_drafted_id_is_short_and_warned_of_with_the_title(project: RepositoryMaker, tmp_path: Path) -> None:
    project.commit(
        {"textkit/wrap.py": "x = 1\n", "tests/test_wrap.py": "def test_x(): ...\n"},
        message="Count columns in place of characters where text is broken into lines",
    )
    created = _from_commit(project, tmp_path / "drafted")
    subject = "count-columns-in-place-of-characters-where"
    assert len(created.id) <= 40
    assert f"{created.id}-" in f"{created.id.partition('-')[0]}-{subject}-", "cut at a word"
    (told,) = (problem for problem in created.problems if problem.code == "draft-title-message")
    assert "a title and an id" in told.message
    assert "--id" in told.hint
    options = CommitContract(
        source=str(project.path), directory=tmp_path / "named", revision="HEAD", id="wide-lines"
    )
    (told,) = (
        problem
        for problem in create_contract_from_commit(options).problems
        if problem.code == "draft-title-message"
    )
    assert "id" not in told.message.split()


def test_a_draft_that_nobody_touched_is_still_told_that_it_gives_the_solution_away(
    project: RepositoryMaker, tmp_path: Path
) -> None:
    _from_commit(project, tmp_path / "contract")
    path = tmp_path / "contract/contract.toml"
    text = path.read_text().replace("fill() breaks East Asian text", "Fix text by counting columns")
    path.write_text(text)
    found = [
        problem
        for problem in check_contract(tmp_path / "contract").problems
        if problem.code == "draft-tells-solution"
    ]
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if line.startswith("title"))
    assert {(problem.file, problem.line) for problem in found} == {
        ("contract.toml", line),
        ("statement.md", 4),
    }
    assert {problem.severity for problem in found} == {"warning"}


def test_whoever_lacks_ids_is_told_which_command_lists_them(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"pyproject.toml": "", "app.py": "a = 1\n"})
    tests = 'import pytest\n\n\n@pytest.mark.parametrize("x", [1, 2])\ndef test_x(x): ...\n'
    maker.commit({"app.py": "a = 2\n", "tests/test_app.py": tests})
    created = _from_commit(maker, tmp_path / "contract")
    (found,) = [problem for problem in created.problems if problem.code == "draft-inventory-unknown"]
    assert "leave out --no-try" in found.hint


def test_tests_that_only_a_run_can_name_are_left_for_the_author(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit(
        {"package.json": '{"scripts": {"test": "node --test"}}', "src/a.js": "export const a = 1;\n"}
    )
    maker.commit({"src/a.js": "export const a = 2;\n", "test/a.test.js": 'import "node:test";\n'})
    created = _from_commit(maker, tmp_path / "contract")
    (found,) = [problem for problem in created.problems if problem.code == "draft-inventory-missing"]
    assert found.field == "checks[0].inventory"
    assert all(word in found.hint for word in ("checks/tests.json", "negative", "contract-from-a-commit.md"))
    errors = {problem.code for problem in lint_contract(load_contract(tmp_path / "contract"))}
    assert "check-without-inventory" in errors


def test_lint_finds_only_what_the_author_has_to_write(project: RepositoryMaker, tmp_path: Path) -> None:
    _from_commit(project, tmp_path / "contract")
    problems = lint_contract(load_contract(tmp_path / "contract"))
    assert {problem.severity for problem in problems} == {"warning"}
    assert {"vague-statement", "new-name-in-statement"} <= {problem.code for problem in problems}
    create_contract(NewContract(source=str(project.path), directory=tmp_path / "new", title="Wide text"))
    problems = lint_contract(load_contract(tmp_path / "new"))
    errors = [problem.code for problem in problems if problem.severity == "error"]
    assert errors == ["baseline-contradiction", "empty-statement"]  # no test fails yet, and nothing is said


def test_guesses_stand_in_the_contract_as_guesses(project: RepositoryMaker, tmp_path: Path) -> None:
    created = _from_commit(project, tmp_path / "contract")
    text = (tmp_path / "contract/contract.toml").read_text().replace("\n# ", " ")
    fields = {guess.field for guess in created.guesses}
    assert {"kind", "ecosystem", "checks[0].run", "checks[0].inventory", "environment.tools"} <= fields
    for guess in created.guesses:
        assert f"guess: {guess.reason}" in text


def test_a_locked_draft_holds_until_something_changes(project: RepositoryMaker, tmp_path: Path) -> None:
    directory = tmp_path / "contract"
    _from_commit(project, directory)
    toml = (directory / "contract.toml").read_bytes()
    first = lock_contract(directory)
    assert (first.is_written, first.old_version_id, first.changes) == (True, None, ())
    assert first.lock.repository.commit == project.git("rev-parse", "HEAD~1").decode().strip()
    assert verify_lock(load_contract(directory)) == []
    before = (directory / "contract.lock.json").stat()
    again = lock_contract(directory)
    assert (again.is_written, again.changes) == (False, ())
    assert (directory / "contract.lock.json").stat().st_mtime_ns == before.st_mtime_ns

    (directory / "checks/tests/tests/test_wrap.py").write_text("def test_other(): ...\n")
    assert verify_lock(load_contract(directory))
    third = lock_contract(directory)
    assert third.is_written
    assert third.old_version_id == first.lock.version_id != third.lock.version_id
    assert "files[checks/tests/tests/test_wrap.py]" in {change.field for change in third.changes}
    assert all(str(change).startswith(change.field) for change in third.changes)
    assert verify_lock(load_contract(directory)) == []
    assert (directory / "contract.toml").read_bytes() == toml


def test_a_changed_archive_makes_the_lock_stale(project: RepositoryMaker, tmp_path: Path) -> None:
    directory = tmp_path / "contract"
    _from_commit(project, directory, is_embedded=True)
    toml = directory / "contract.toml"
    pinned = next(line for line in toml.read_text().splitlines() if line.startswith("digest = "))
    toml.write_text(toml.read_text().replace(pinned + "\n", ""))
    lock_contract(directory)
    archive = directory / "repository.tar"
    archive.write_bytes(archive.read_bytes().replace(b"Text for terminals.", b"Text for everybody!"))
    fields = {problem.field for problem in verify_lock(load_contract(directory))}
    assert fields == {"repository.tree_digest", "repository.archive_digest"}
    changes = {change.field for change in lock_contract(directory).changes}
    assert changes == {*fields, "version_id", "parts.repository"}


def test_an_archive_that_the_contract_does_not_pin_is_a_problem(
    project: RepositoryMaker, tmp_path: Path
) -> None:
    directory = tmp_path / "contract"
    _from_commit(project, directory, is_embedded=True)
    lock_contract(directory)
    archive = directory / "repository.tar"
    archive.write_bytes(archive.read_bytes().replace(b"Text for terminals.", b"Text for everybody!"))
    [problem] = verify_lock(load_contract(directory))
    assert (problem.code, problem.field) == ("archive-digest-mismatch", "repository")
    assert problem.line is not None
    with raises_code("archive-digest-mismatch"):
        lock_contract(directory)


def test_a_contract_without_a_lock_is_told_so(project: RepositoryMaker, tmp_path: Path) -> None:
    _from_commit(project, tmp_path / "contract")
    assert [problem.code for problem in verify_lock(load_contract(tmp_path / "contract"))] == ["lock-missing"]
    assert not (tmp_path / "contract/contract.lock.json").exists()


def test_an_unsound_contract_is_not_locked(project: RepositoryMaker, tmp_path: Path) -> None:
    _from_commit(project, tmp_path / "contract")
    toml = tmp_path / "contract/contract.toml"
    toml.write_text(
        toml.read_text().replace('gate = "acceptance"', 'gate = "none"').replace("kind =", "kynd =")
    )
    with raises_code("contract-invalid") as caught:
        lock_contract(tmp_path / "contract")
    assert len(caught.value.details) > 1
    assert not (tmp_path / "contract/contract.lock.json").exists()


def test_submodules_are_pinned_and_embedded(tmp_path: Path) -> None:
    other = RepositoryMaker(tmp_path / "other")
    commit = other.commit({"lib.py": "x = 1\n"})
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"setup.cfg": ""}, message="Start")
    maker.add_submodule("vendor/other", commit, url="../other")
    maker.commit_index("Vendor")
    options = NewContract(source=str(maker.path), directory=tmp_path / "named", title="T")
    create_contract(options)
    named = lock_contract(tmp_path / "named").lock.repository
    assert [(pin.path, pin.commit) for pin in named.submodules] == [("vendor/other", commit)]
    create_contract(msgspec.structs.replace(options, directory=tmp_path / "embedded", is_embedded=True))
    assert lock_contract(tmp_path / "embedded").lock.repository.tree_digest == named.tree_digest


def test_a_bundle_is_a_source_too(project: RepositoryMaker, tmp_path: Path) -> None:
    bundle = project.bundle(tmp_path / "textkit.bundle")
    created = create_contract_from_commit(
        CommitContract(source=str(bundle), directory=tmp_path / "contract", revision="main", is_embedded=True)
    )
    assert created.id.startswith("textkit-")
    assert lock_contract(tmp_path / "contract").lock.repository.archive_digest is not None


def test_a_merge_is_compared_with_its_first_parent(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"go.mod": "module app\n", "app.go": "package app\n"}, message="Start")
    maker.git("checkout", "-q", "-b", "topic")
    maker.commit({"app.go": "package app\n\nvar X = 1\n"}, message="Product")
    maker.commit({"app_test.go": "package app\n"}, message="Test")
    maker.git("checkout", "-q", "main")
    main = maker.commit({"NOTES": "other work\n"}, message="Other")
    maker.git("merge", "-q", "--no-ff", "-m", "Merge pull request #1 from x/topic\n\nApp has no X", "topic")
    created = _from_commit(maker, tmp_path / "contract")
    loaded = load_contract(tmp_path / "contract")
    assert (created.base_commit, created.title) == (main, "App has no X")
    assert loaded.inventories == {}
    assert [result.format for result in loaded.contract.checks[0].results] == ["go-test-json"]


def test_a_new_contract_loads_and_names_what_is_left(project: RepositoryMaker, tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "contract"
    created = create_contract(
        NewContract(source=str(project.path), directory=directory, title='Say "no"\nto wide text')
    )
    loaded = load_contract(directory)
    assert loaded.contract.title == 'Say "no" to wide text'
    assert created.files == ("checks/tests.json", "contract.toml", "statement.md")
    assert loaded.inventories["tests"].pass_to_pass == (
        "tests.test_cells.TestCells::test_wide",
        "tests.test_wrap::test_narrow",
        "tests.test_wrap::test_wide",
    )
    assert {problem.code for problem in created.problems} == {
        "draft-source-local",
        "draft-packages-unstated",
        "draft-statement-form",
        "draft-nothing-fails",
    }
    assert lock_contract(directory).is_written


def test_options_win_over_guesses(project: RepositoryMaker, tmp_path: Path) -> None:
    created = create_contract(
        NewContract(
            source=str(project.path),
            directory=tmp_path / "contract",
            title="Title",
            revision="HEAD~1",
            id="mine",
            kind="refactor",
            ecosystem="c",
            command='./judge "$HOME"',
            is_embedded=True,
        )
    )
    contract = load_contract(tmp_path / "contract").contract
    assert (contract.id, contract.kind, contract.ecosystem) == ("mine", "refactor", "c")
    assert contract.checks[0].run == './judge "$HOME"'
    assert created.base_commit == project.git("rev-parse", "HEAD~1").decode().strip()
    assert "repository.tar" in created.files


@pytest.mark.parametrize("ecosystem", ["python", "javascript", "rust", "go", "c"])
def test_every_ecosystem_gives_a_contract_that_loads(
    project: RepositoryMaker, tmp_path: Path, ecosystem: str
) -> None:
    options = msgspec.convert(
        {"source": str(project.path), "directory": "x", "title": "T", "ecosystem": ecosystem},
        NewContract,
        dec_hook=lambda _, value: tmp_path / value,
    )
    create_contract(options)
    assert load_contract(tmp_path / "x").contract.ecosystem == ecosystem


def test_nothing_is_written_over_files(project: RepositoryMaker, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("taken", "file", "link"):
        with raises_code("contract-directory-taken"):
            _from_commit(project, tmp_path / name)
    assert (tmp_path / "taken/file").read_text() == (tmp_path / "file").read_text() == "mine"


def test_an_empty_directory_is_filled(project: RepositoryMaker, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    _from_commit(project, tmp_path / "empty")
    assert (tmp_path / "empty/contract.toml").is_file()


def test_a_refused_change_leaves_nothing_behind(project: RepositoryMaker, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with raises_code("root-commit"):
        create_contract_from_commit(
            CommitContract(source=str(project.path), directory=tmp_path / "x", revision="HEAD~1")
        )
    assert sorted(tmp_path.iterdir()) == before


def test_an_unknown_project_needs_a_command(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"main.zig": ""})
    options = NewContract(source=str(maker.path), directory=tmp_path / "contract", title="T")
    with raises_code("ecosystem-unknown", match=r"main\.zig"):
        create_contract(options)
    create_contract(msgspec.structs.replace(options, command="zig build test"))
    text = (tmp_path / "contract/contract.toml").read_text()
    assert "ecosystem" not in tomllib.loads(text)


@pytest.mark.parametrize(("name", "value"), [("id", "Not An Id"), ("id", ""), ("title", "\x1b[0m \n")])
def test_names_that_no_contract_can_hold_are_refused(
    project: RepositoryMaker, tmp_path: Path, name: str, value: str
) -> None:
    options = NewContract(source=str(project.path), directory=tmp_path / "contract", title="T")
    with raises_code("contract-option-invalid"):
        create_contract(msgspec.structs.replace(options, **{name: value}))


class TestChangesThatAreNoContract:
    """Each is refused by name, before anything is written."""

    def _refuse(self, maker: RepositoryMaker, tmp_path: Path, expected: str, *globs: str) -> None:
        options = CommitContract(
            source=str(maker.path), directory=tmp_path / "contract", revision="HEAD", test_globs=globs
        )
        with raises_code(expected, match="expected"):
            create_contract_from_commit(options)
        assert not (tmp_path / "contract").exists()

    @pytest.fixture
    def maker(self, tmp_path: Path) -> RepositoryMaker:
        maker = RepositoryMaker(tmp_path / "app")
        maker.commit({"setup.cfg": "", "app.py": "", "tests/test_app.py": ""}, message="Start")
        return maker

    def test_the_first_commit(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        self._refuse(maker, tmp_path, "root-commit")

    def test_no_change_at_all(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        maker.commit({}, message="Nothing")
        self._refuse(maker, tmp_path, "empty-change")

    def test_only_tests(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        maker.commit({"tests/test_app.py": "def test_a(): ...\n"})
        self._refuse(maker, tmp_path, "change-only-tests")

    def test_no_tests(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        maker.commit({"app.py": "a = 1\n"})
        self._refuse(maker, tmp_path, "change-without-tests")

    def test_tests_that_are_only_removed(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        (maker.path / "tests/test_app.py").unlink()
        maker.commit({"app.py": "a = 1\n"})
        self._refuse(maker, tmp_path, "change-without-tests")

    def test_own_globs_that_match_nothing(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        maker.commit({"app.py": "a = 1\n", "tests/test_app.py": "def test_a(): ...\n"})
        self._refuse(maker, tmp_path, "change-without-tests", "qa/**")

    def test_a_submodule_that_moves(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        other = RepositoryMaker(tmp_path / "other")
        commit = other.commit({"x": "y"})
        maker.commit({"app.py": "a = 1\n", "tests/test_app.py": "def test_a(): ...\n"})
        maker.git("reset", "-q", "--soft", "HEAD~1")
        maker.add_submodule("vendor/other", commit, url="../other")
        maker.commit_index("Everything at once")
        self._refuse(maker, tmp_path, "submodule-changed")

    def test_a_test_that_is_a_link(self, maker: RepositoryMaker, tmp_path: Path) -> None:
        (maker.path / "tests/test_link.py").symlink_to("/etc/passwd")
        maker.commit({"app.py": "a = 1\n"})
        self._refuse(maker, tmp_path, "test-file-unsupported")


def test_links_and_odd_names_can_join_the_reference(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"setup.cfg": "", "app.py": ""}, message="Start")
    (maker.path / "tests").mkdir()
    (maker.path / "tests/link").symlink_to("../app.py")
    maker.commit({"app.py": "a = 1\n", "tests/test_app.py": "def test_a(): ...\n", b"tests/\xff\n": "odd"})
    options = CommitContract(
        source=str(maker.path),
        directory=tmp_path / "contract",
        revision="HEAD",
        test_globs=("!tests/*", "tests/test_*.py"),
    )
    create_contract_from_commit(options)
    loaded = load_contract(tmp_path / "contract")
    workspace = tmp_path / "workspace"
    materialize_snapshot(loaded.contract.repository, base=loaded.directory, into=workspace)
    assert loaded.reference is not None
    run_git(workspace, "apply", "-", stdin=loaded.reference)
    _lay_checks(loaded, workspace)
    run_git(maker.path, "worktree", "add", "-q", "--detach", str(tmp_path / "merged"), "HEAD")
    (tmp_path / "merged/.git").unlink()
    assert compute_tree_digest(workspace) == compute_tree_digest(tmp_path / "merged")


def test_a_file_that_becomes_a_directory_is_replaced(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "app")
    maker.commit({"setup.cfg": "", "app.py": "", "tests/data": "one file\n"}, message="Start")
    (maker.path / "tests/data").unlink()
    maker.commit({"app.py": "a = 1\n", "tests/data/a": "a", "tests/test_app.py": "def test_a(): ...\n"})
    _from_commit(maker, tmp_path / "contract")
    loaded = load_contract(tmp_path / "contract")
    workspace = tmp_path / "workspace"
    materialize_snapshot(loaded.contract.repository, base=loaded.directory, into=workspace)
    _lay_checks(loaded, workspace)
    assert (workspace / "tests/data/a").read_text() == "a"


def test_a_check_that_needs_pytest_asks_for_the_lock_that_brings_it(
    project: RepositoryMaker, tmp_path: Path
) -> None:
    created = _from_commit(project, tmp_path / "bare")
    (found,) = [problem for problem in created.problems if problem.code == "draft-packages-unstated"]
    assert (found.file, found.field) == ("contract.toml", "environment.python")
    assert "--python-lock" in (found.hint or "")


def test_a_lock_that_is_given_becomes_part_of_the_contract(project: RepositoryMaker, tmp_path: Path) -> None:
    lock = tmp_path / "pins.txt"
    lock.write_text("iniconfig==2.0.0 --hash=sha256:" + "0" * 64 + "\n")
    created = create_contract_from_commit(
        CommitContract(
            source=str(project.path), directory=tmp_path / "mine", revision="HEAD", python_lock=lock
        )
    )
    assert "draft-packages-unstated" not in {problem.code for problem in created.problems}
    python = load_contract(tmp_path / "mine").contract.environment.python
    assert python is not None
    assert (tmp_path / "mine" / python.lock).read_bytes() == lock.read_bytes()


def test_a_lock_that_is_not_there_is_named_before_anything_is_written(
    project: RepositoryMaker, tmp_path: Path
) -> None:
    options = NewContract(
        source=str(project.path), directory=tmp_path / "mine", title="T", python_lock=tmp_path / "missing.txt"
    )
    with raises_code("contract-option-invalid", match=r"missing\.txt"):
        create_contract(options)
    assert not (tmp_path / "mine").exists()
