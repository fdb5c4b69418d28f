"""Places that ask for human review: what would run weighs more than what is only mentioned."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.policy import find_review_flags


def _find(
    path: str, source: str, *, kind: Literal["added", "modified", "deleted"] = "added", first: int = 1
) -> tuple[Any, ...]:
    lines = source.removesuffix("\n").split("\n") if source else []
    added = tuple(AddedLine(number, text) for number, text in enumerate(lines, start=first))
    file = ChangedFile(path=path, kind=kind, added_lines=added, mode="100644")
    return find_review_flags(ChangeView(files=(file,), digest="sha256:" + "0" * 64))


def _codes(flags: tuple[Any, ...], confidence: str = "code") -> set[str]:
    return {flag.code for flag in flags if flag.confidence == confidence}


PYTHON = {
    "import _pytest.reports": "framework-internals",
    "from pluggy import HookimplMarker": "framework-internals",
    "def pytest_runtest_setup(item): pass": "framework-internals",
    "import sys\nsys._getframe(1)": "frame-inspection",
    "from sys import _getframe as g": "frame-inspection",
    "import sys\ngetattr(sys, '_getframe')(1)": "frame-inspection",
    "import inspect\ninspect.stack()": "frame-inspection",
    "from inspect import stack": "frame-inspection",
    "e.__traceback__.tb_frame.f_back": "frame-inspection",
    "import gc": "object-graph",
    "x.get_referrers(y)": "object-graph",
    "import atexit": "exit-hook",
    "import os\nos._exit(0)": "early-exit",
    "sys.exit(0)": "early-exit",
    "raise SystemExit": "early-exit",
    "import sys\nsys.settrace(f)": "tracing",
    "import sys\nsys.modules['pytest'] = x": "import-system",
    "import sys\nsys.modules.update(x)": "import-system",
    "import sys\nsys.meta_path.insert(0, x)": "import-system",
    "import builtins\nbuiltins.print = x": "builtins",
    "import unittest\nunittest.TestCase.assertEqual = f": "assertion-patching",
    "setattr(unittest.TestCase, 'assertEqual', f)": "assertion-patching",
    "import ctypes": "native-code",
    "class A:\n    def __eq__(self, other):\n        return True": "always-equal",
    "class A:\n    def __ne__(self, other): return False": "always-equal",
    "__import__('_py' + name)": "dynamic-code",
    "eval(text)": "dynamic-code",
    "import os\nif 'PYTEST_CURRENT_TEST' in os.environ: pass": "harness-detection",
    "import os\nos.environ.get('REPOTRIAL_RESULTS')": "harness-detection",
    "import os\nos.environ['LD_PRELOAD'] = 'x'": "loader-variable",
}


@pytest.mark.parametrize("kind", ["added", "modified"])
@pytest.mark.parametrize("source", PYTHON)
def test_python_code_is_flagged_in_new_and_in_changed_files(
    source: str, kind: Literal["added", "modified"]
) -> None:
    assert PYTHON[source] in _codes(_find("src/a.py", source, kind=kind))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("__import__('_py' + 'test')", "framework-internals"),
        ("getattr(x, 'emarfteg_'[::-1])", "frame-inspection"),
        ("import sys as s\ns.modules['a'] = b", "import-system"),
        ("from sys import modules as m\nm['a'] = b", "import-system"),
        ("from unittest import TestCase as T\nT.assertEqual = f", "assertion-patching"),
        ("class A:\n    __eq__ = lambda self, other: True", "always-equal"),
        (
            "class A:\n    def __eq__(self, other):\n        '''Says so.'''\n        return True",
            "always-equal",
        ),
        ("getattr(sys, name)", "dynamic-code"),
    ],
)
def test_the_syntax_of_a_whole_file_sees_through_aliases(source: str, code: str) -> None:
    assert code in _codes(_find("src/a.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "import sys\ndef main():\n    sys.exit(1)\nif __name__ == '__main__':\n    sys.exit(main())\n",
        "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
        "class A:\n    def f(self):\n        return None\n",
        "import inspect\ninspect.signature(f)\n",
        "import re\nre.compile('x')\ndf.eval('x')\n",
        "import importlib\nimportlib.import_module('json')\nsys.modules['a']\n",
    ],
)
def test_ordinary_code_is_not_flagged(source: str) -> None:
    assert _find("src/a.py", source) == ()


@pytest.mark.parametrize("kind", ["added", "modified"])
@pytest.mark.parametrize("source", ["x = 1  # not sys._getframe", "x = 'we use sys._getframe here'"])
def test_a_mention_weighs_less_than_code(source: str, kind: Literal["added", "modified"]) -> None:
    flags = _find("src/a.py", source, kind=kind)
    assert [(flag.code, flag.confidence) for flag in flags] == [("frame-inspection", "text")]


def test_a_docstring_is_a_mention_at_its_own_line() -> None:
    flags = _find("a.py", '"""First.\n\nUses _getframe.\n"""\n')
    assert [(flag.line, flag.confidence) for flag in flags] == [(3, "text")]


@pytest.mark.parametrize(
    ("path", "source", "code"),
    [
        ("a.js", "process.exit(0)", "early-exit"),
        ("a.mjs", "import test from 'node:test'", "framework-internals"),
        ("a.cjs", "delete require.cache[x]", "import-system"),
        ("a.ts", "process.env.NODE_OPTIONS = '--require x'", "loader-variable"),
        ("a.c", "_exit(0);", "early-exit"),
        ("a.h", "#define assert(x) ((void)0)", "assertion-patching"),
        ("a.c", "__attribute__((constructor)) void f(void) {}", "loader-variable"),
        ("a.c", 'setenv("LD_PRELOAD", "x", 1);', "loader-variable"),
        ("Makefile", "test:", "build-hook"),
        ("run.sh", "trap 'exit 0' EXIT", "exit-hook"),
        ("package.json", '  "postinstall": "node x.js",', "build-hook"),
        ("package.json", '  "test": "true"', "test-options"),
        ("pyproject.toml", 'addopts = "-p plugin"', "test-options"),
        ("setup.cfg", "[tool:pytest]", "test-options"),
    ],
)
def test_other_languages_are_read_too(path: str, source: str, code: str) -> None:
    flags = _find(path, source, kind="modified")
    assert code in _codes(flags)
    assert source in {flag.segment for flag in flags}
    assert not _codes(_find(path, "", kind="modified")) - {"hook-file", "build-hook"}


@pytest.mark.parametrize(
    ("path", "source"), [("a.js", "x() // process.exit(0)"), ("a.c", "/* _exit(0) */ x();")]
)
def test_comments_of_other_languages_weigh_less(path: str, source: str) -> None:
    assert {flag.confidence for flag in _find(path, source)} == {"text"}


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "a/Conftest.py",
        "sitecustomize.py",
        "x/usercustomize.py",
        "a.pth",
        "pytest.ini",
        ".npmrc",
    ],
)
def test_files_that_load_themselves_are_flagged_by_name(path: str) -> None:
    flags = _find(path, "")
    assert [(flag.code, flag.line) for flag in flags] == [("hook-file", None)]


def test_the_segment_is_exact_and_bounded() -> None:
    source = "x = '" + "a" * 500 + "'; sys._getframe(1); y = '" + "b" * 500 + "'"
    (flag,) = _find("a.py", source, kind="modified")
    assert flag.segment in source
    assert "sys._getframe(1)" in flag.segment
    assert len(flag.segment) == 200


def test_many_flags_of_one_kind_are_bounded_and_say_so() -> None:
    flags = _find("a.py", "f_back\n" * 50)
    assert len(flags) == 20
    assert flags[-1].why.endswith("there is more like it")


def test_deleted_files_are_not_flagged() -> None:
    assert _find("conftest.py", "", kind="deleted") == ()


def test_every_reason_is_a_sentence_part() -> None:
    reasons = {flag.why for source in PYTHON for flag in _find("src/a.py", source)}
    assert len(reasons) >= len(set(PYTHON.values()))
    assert all(reason[0].islower() and not reason.endswith(".") for reason in reasons)
