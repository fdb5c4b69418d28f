"""A change taken apart: the tests, which become hidden checks, and the rest, which becomes the reference."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from repotrial._core.display import list_some
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.change import compile_globs
from repotrial.contract import Overlay
from repotrial.source import ChangedFile, ChangeStatus, CommitInfo

TEST_GLOBS: tuple[str, ...] = (
    # Directories that hold tests and what tests need: data, fixtures, snapshots. `test` counts at the top and
    # in packages of a monorepo only: deeper down it is as often library code (`django/test/client.py`).
    "test/**",
    "packages/*/test/**",
    "**/src/test/**",
    "**/src/androidTest/**",
    "**/tests/**",
    "**/__tests__/**",
    "**/__mocks__/**",
    "**/__snapshots__/**",
    "**/__fixtures__/**",
    "**/testdata/**",
    "spec/**",
    "e2e/**",
    "t/**/*.t",
    # Files that are tests by name.
    "**/test_*.py",
    "**/*_test.py",
    "**/tests.py",
    "**/conftest.py",
    "**/*_test.go",
    "**/*.test.js",
    "**/*.test.jsx",
    "**/*.test.mjs",
    "**/*.test.cjs",
    "**/*.test.ts",
    "**/*.test.tsx",
    "**/*.test.mts",
    "**/*.test.cts",
    "**/*.spec.js",
    "**/*.spec.jsx",
    "**/*.spec.mjs",
    "**/*.spec.cjs",
    "**/*.spec.ts",
    "**/*.spec.tsx",
    "**/*_spec.rb",
    "**/*_test.rb",
    "**/*_test.exs",
    "**/*_test.dart",
    "**/*_test.c",
    "**/*_test.cc",
    "**/*_test.cpp",
    "**/test_*.c",
    "**/test_*.cc",
    "**/test_*.cpp",
    "**/*Test.java",
    "**/*Tests.java",
    "**/*IT.java",
    "**/*Test.kt",
    "**/*Tests.cs",
    "**/*Test.php",
    "**/*Tests.swift",
    "**/*_tests.rs",
    "**/tests.rs",
)
"""What counts as a test where the author says nothing; later patterns win, `!` takes back."""


GLOB_INVALID = ErrorCode(
    "glob-invalid",
    UsageError,
    "A glob for test files cannot be understood.",
    hint="write globs relative to the repository root, such as 'tests/**' or '!tests/helpers/**'",
)


class KnownTestPaths:
    """A predicate over paths of the repository.

    Args:
        globs: Taken instead of the conventions where any is given; if the first takes something back (`!`),
            they refine the conventions.
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        chosen = (*TEST_GLOBS, *globs) if not globs or globs[0].startswith("!") else tuple(globs)
        try:
            self._spec = compile_globs(chosen)
        except ValueError as error:
            raise GLOB_INVALID.error(
                f"expected globs for test files, found {list(globs)!r}: {error}"
            ) from error

    def __contains__(self, path: str) -> bool:
        return self._spec.match_file(path)


_GITLINK = "160000"
_SYMLINK = "120000"
_SHOWN = 5


ROOT_COMMIT = ErrorCode(
    "root-commit",
    UsageError,
    "A commit without a parent cannot become a contract: there is no tree on which an agent could start.",
    hint="choose a commit that changes an existing project",
)
EMPTY_CHANGE = ErrorCode(
    "empty-change",
    UsageError,
    "A commit changes no file against its first parent, so there is nothing to ask of an agent.",
    hint="choose the commit that brought the change; for a merge, the one on the main branch",
)
CHANGE_WITHOUT_TESTS = ErrorCode(
    "change-without-tests",
    UsageError,
    "A commit adds or modifies no test, so nothing could judge another solution of the same problem.",
    hint="say which files are tests with globs, or start with `contract new` and write the checks",
)
CHANGE_ONLY_TESTS = ErrorCode(
    "change-only-tests",
    UsageError,
    "A commit changes tests only, so there is no solution that an agent could find.",
    hint="choose a commit that changes the product too, or narrow the globs for test files",
)
SUBMODULE_CHANGED = ErrorCode(
    "submodule-changed",
    UsageError,
    "A commit moves, adds or removes a submodule, which a patch of the workspace cannot express.",
    hint="choose a commit without submodule changes, or write the contract with `contract new`",
)
TEST_FILE_UNSUPPORTED = ErrorCode(
    "test-file-unsupported",
    UsageError,
    "A test file of the change cannot lie beside a contract: it is a link, or has an odd name.",
    hint="exclude it from the test files with a glob such as '!tests/odd-name'; it joins the reference",
)


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The two halves of a change; every changed file is in one of them."""

    laid: tuple[str, ...]
    """Test files that the change adds or modifies."""
    removed: tuple[str, ...]
    """Test files that must be gone before the others are laid: deleted ones, and links that became files."""
    reference: tuple[ChangedFile, ...]

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.laid, *self.removed)))


def split_change(info: CommitInfo, tests: KnownTestPaths) -> Split:
    """Tell tests from the rest by their paths.

    Raises:
        ROOT_COMMIT, EMPTY_CHANGE, SUBMODULE_CHANGED, CHANGE_WITHOUT_TESTS,
        CHANGE_ONLY_TESTS, TEST_FILE_UNSUPPORTED: the change cannot become a contract.
    """
    if not info.parents:
        raise ROOT_COMMIT.error(f"expected a commit with a parent, found the root commit {info.commit}")
    if not info.changes:
        raise EMPTY_CHANGE.error(
            f"expected changed files, found none between {info.commit} and its first parent"
        )
    if moved := [change.path for change in info.changes if _GITLINK in (change.old_mode, change.new_mode)]:
        raise SUBMODULE_CHANGED.error(f"expected changes of files only, found the submodule {_show(moved)}")
    hidden = [change for change in info.changes if change.path in tests]
    reference = tuple(change for change in info.changes if change.path not in tests)
    laid = [change for change in hidden if change.status is not ChangeStatus.DELETED]
    if not laid:
        raise CHANGE_WITHOUT_TESTS.error(
            f"expected an added or modified test among the {len(info.changes)} changed files, "
            f"found {_show([change.path for change in info.changes])}"
        )
    if not reference:
        raise CHANGE_ONLY_TESTS.error(
            f"expected a change beside the tests, found {_show([change.path for change in hidden])}"
        )
    verify_hidden(hidden, reference)
    replaced = (ChangeStatus.DELETED, ChangeStatus.TYPE_CHANGED)
    return Split(
        laid=tuple(change.path for change in laid),
        removed=tuple(change.path for change in hidden if change.status in replaced),
        reference=reference,
    )


def verify_hidden(hidden: Sequence[ChangedFile], reference: Sequence[ChangedFile]) -> None:
    """Make sure that the tests of a change can lie beside a contract, apart from the rest.

    Raises:
        TEST_FILE_UNSUPPORTED: one of them cannot.
    """
    _verify_storable(hidden)
    _verify_separable(hidden, reference)


def _verify_storable(hidden: Sequence[ChangedFile]) -> None:
    for change in hidden:
        if change.new_mode == _SYMLINK:
            raise TEST_FILE_UNSUPPORTED.error(f"expected plain test files, found the link {change.path!r}")
        try:
            change.path.encode()  # bytes that are not UTF-8 come as surrogates
            msgspec.convert({"from": f"checks/tests/{change.path}", "to": change.path}, Overlay)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise TEST_FILE_UNSUPPORTED.error(
                f"expected a file name that a contract can hold, found {change.path!r}"
            ) from error


def _verify_separable(hidden: Sequence[ChangedFile], reference: Sequence[ChangedFile]) -> None:
    """A patch without a path is also without everything below it."""
    for change in hidden:
        if any(other.path.startswith(f"{change.path}/") for other in reference):
            raise TEST_FILE_UNSUPPORTED.error(
                f"expected test files apart from the rest, found {change.path!r}, which becomes a directory"
            )


def _show(paths: Sequence[str]) -> str:
    return list_some([repr(path) for path in paths], most=_SHOWN)
