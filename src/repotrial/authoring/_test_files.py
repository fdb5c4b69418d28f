"""Which files of a change are tests: by path, by the conventions of the common ecosystems."""

from __future__ import annotations

from collections.abc import Sequence

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.change import compile_globs

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
