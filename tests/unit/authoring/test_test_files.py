from __future__ import annotations

import pytest

from repotrial.authoring import KnownTestPaths
from support.errors import raises_code


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_wrap.py",
        "tests/data/image.png",
        "test/helper.js",
        "pkg/tests/unit/x.py",
        "pkg/module_test.py",
        "test_top.py",
        "conftest.py",
        "app/tests.py",
        "pkg/server_test.go",
        "pkg/testdata/golden.txt",
        "src/app.test.ts",
        "src/app.spec.js",
        "src/__tests__/app.jsx",
        "src/__snapshots__/app.snap",
        "core/src/test/java/org/x/FooTest.java",
        "t/01-basic.t",
        "spec/models/user_spec.rb",
        "crates/core/tests/cli.rs",
        "packages/ui/test/button.js",
    ],
)
def test_conventions_of_common_ecosystems_are_known(path: str) -> None:
    assert path in KnownTestPaths()


@pytest.mark.parametrize(
    "path",
    [
        "textkit/wrap.py",
        "README.md",
        "django/test/client.py",
        "src/latest.py",
        "contest/main.go",
        "src/testimony.js",
        "docs/testing.md",
        "src/lib.rs",
        "t/lib.pm",
    ],
)
def test_other_files_are_not_tests(path: str) -> None:
    assert path not in KnownTestPaths()


def test_own_globs_replace_the_conventions() -> None:
    paths = KnownTestPaths(["qa/**"])
    assert "qa/check.py" in paths
    assert "tests/test_wrap.py" not in paths


def test_a_leading_exception_refines_the_conventions() -> None:
    paths = KnownTestPaths(["!tests/helpers/**"])
    assert "tests/test_wrap.py" in paths
    assert "tests/helpers/build.py" not in paths


def test_a_glob_that_means_nothing_is_refused() -> None:
    with raises_code("glob-invalid", match="expected globs"):
        KnownTestPaths(["!"])
