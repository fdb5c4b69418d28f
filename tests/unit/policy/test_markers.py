"""Marks of an unfinished merge."""

from __future__ import annotations

import pytest

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.policy import find_conflict_markers


def _lines(*texts: str) -> list[int]:
    added = tuple(AddedLine(number, text) for number, text in enumerate(texts, start=1))
    file = ChangedFile(path="a", kind="modified", added_lines=added)
    view = ChangeView(files=(file,), digest="sha256:" + "0" * 64)
    return [place.line for place in find_conflict_markers(view)]


@pytest.mark.parametrize("end", ["", "\r"])
def test_a_group_is_found_line_by_line(end: str) -> None:
    texts = ("a", "<<<<<<< HEAD", "b", "||||||| base", "=======", "c", ">>>>>>> theirs", "=======")
    assert _lines(*(text + end for text in texts)) == [2, 4, 5, 7]


def test_an_underline_is_no_marker() -> None:
    assert _lines("Heading", "=======", "text") == []


def test_a_mark_inside_a_line_or_of_another_length_is_none() -> None:
    assert _lines(" <<<<<<< HEAD", "=======", ">>>>>>> x", "<<<<<<<< HEAD", ">>>>>>>> x") == []


def test_an_opening_mark_alone_is_no_group() -> None:
    assert _lines("<<<<<<< HEAD", "=======") == []
