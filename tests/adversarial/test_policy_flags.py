"""Changes that hide what they do from the eye of a reader."""

from __future__ import annotations

import pytest

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.change._model import ChangeKind
from repotrial.policy import find_review_flags
from repotrial.policy._flag_lines import ReviewFlag


def _find(source: str, *, path: str = "a.py", kind: ChangeKind = "modified") -> tuple[ReviewFlag, ...]:
    added = tuple(AddedLine(number, text) for number, text in enumerate(source.split("\n"), start=1))
    file = ChangedFile(path=path, kind=kind, added_lines=added, mode="100644")
    return find_review_flags(ChangeView(files=(file,), digest="sha256:" + "0" * 64))


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('"""\nsys._getframe(1)\n"""', "modified"),  # closes a docstring of the file and opens another
        ('# """; sys._getframe(1)', "modified"),  # inside a string, this is no comment
        ("# harmless\rsys._getframe(1)", "modified"),
        ("# harmless\rsys._getframe(1)", "added"),
        ("sys._ｇｅｔｆｒａｍｅ(1)", "modified"),  # noqa: RUF001 - the interpreter reads it as plain letters
        ("sys._ｇｅｔｆｒａｍｅ(1)", "added"),  # noqa: RUF001
        ("sys._getframe(1) if True else", "added"),  # no syntax of ours
    ],
)
def test_code_that_looks_like_a_comment_or_a_string_is_code(source: str, kind: ChangeKind) -> None:
    assert ("frame-inspection", "code") in {(flag.code, flag.confidence) for flag in _find(source, kind=kind)}


def test_a_line_comment_that_ends_a_block_comment_is_code() -> None:
    flags = _find("// */ process.exit(0) /*", path="a.js")
    assert [(flag.code, flag.confidence) for flag in flags] == [("early-exit", "code")]


def test_an_encoding_that_hides_code_is_flagged() -> None:
    assert [flag.code for flag in _find("# coding: utf-7\nx = 1")] == ["source-encoding"]
    assert _find("# -*- coding: utf-8 -*-\nx = 1") == ()


@pytest.mark.parametrize("unit", ["(", "-", "[", "f(", "lambda: ", "not "])
def test_deep_nesting_exhausts_nothing(unit: str) -> None:
    _find("x = " + unit * 30_000 + "1", kind="added")
    _find(
        "x = " + unit * 90 + "1" + ")" * (90 * unit.count("(")) + "]" * (90 * unit.count("[")), kind="added"
    )


@pytest.mark.parametrize(
    "unit", ["a", "'", '"', "sys.modules[", "# ", "/*", "from inspect import ", "\\'", "trap "]
)
@pytest.mark.parametrize("path", ["a.py", "a.js", "a.c", "a.sh", "a.toml", "a.txt"])
def test_a_line_of_megabytes_is_read_in_time_and_called_opaque(unit: str, path: str) -> None:
    flags = _find(unit * (1_000_000 // len(unit)), path=path)
    assert ("opaque-line" in {flag.code for flag in flags}) == (path != "a.txt")


def test_a_link_out_of_the_tree_and_a_submodule_are_flagged() -> None:
    link = ChangedFile(
        path="a/b", kind="added", added_lines=(AddedLine(1, "../../etc"),), mode="120000", is_symlink=True
    )
    module = ChangedFile(
        path="vendor", kind="added", added_lines=(AddedLine(1, "Subproject"),), mode="160000"
    )
    flags = find_review_flags(ChangeView(files=(link, module), digest="sha256:" + "0" * 64))
    assert [(flag.path, flag.code) for flag in flags] == [("a/b", "link-outside"), ("vendor", "submodule")]


ENDLESS = {
    "an import": "import " + "a." * 400_000 + "b\nimport gc\n",
    "an import over many lines": "import " + "a.\\\n" * 200_000 + "b\nimport gc\n",
    "from a module": "from " + "a." * 400_000 + "b import c\nimport gc\n",
    "attributes of attributes": ("x" + ".a" * 900 + "\n") * 20 + "import gc\n",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_names_without_an_end_hide_nothing_and_keep_nobody_waiting(source: str) -> None:
    """An interpreter joins the names of an import in time by the square; at this length, half an hour."""
    assert "object-graph" in {flag.code for flag in _find(source, kind="added")}


def test_the_last_of_very_many_names_counts() -> None:
    source = "x" + ".a" * 100 + ".TestCase.assertEqual = None\n"
    assert "assertion-patching" in {flag.code for flag in _find(source, kind="added")}


FORGERIES = {
    "the judge's memory": ("open(f'/proc/{os.getppid()}/mem', 'r+b')", "process-files"),
    "the judge's memory, joined": ("open('/proc/' + str(os.getppid()) + '/mem')", "process-files"),
    "the judge's output": ("open('/proc/self/fd/1', 'w')", "process-files"),
    "the judge's memory by a call": ("libc.process_vm_writev(pid)", "native-code"),
    "marks in the page cache": ("libc.mincore(address, length, vector)", "page-cache"),
    "marks dropped from the page cache": ("os.posix_fadvise(f, 0, 0, 4)", "page-cache"),
    "marks read without waiting": ("os.preadv(f, [b], 0, os.RWF_NOWAIT)", "page-cache"),
}


@pytest.mark.parametrize("kind", ["added", "modified"])
@pytest.mark.parametrize(("source", "code"), FORGERIES.values(), ids=FORGERIES)
def test_a_reach_for_other_processes_or_later_runs_is_flagged_with_its_line(
    source: str, code: str, kind: ChangeKind
) -> None:
    flags = _find(f"x = 1\n{source}\n", kind=kind)
    assert (code, 2, "code") in {(flag.code, flag.line, flag.confidence) for flag in flags}


@pytest.mark.parametrize("kind", ["added", "modified"])
@pytest.mark.parametrize(
    "source", ["open('/proc/cpuinfo')", "open('/proc/sys/kernel/osrelease')", "x = '/process/self'"]
)
def test_facts_about_the_machine_are_not_flagged(source: str, kind: ChangeKind) -> None:
    assert _find(source, kind=kind) == ()
