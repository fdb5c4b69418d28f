"""Lines, JSON and errors."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import UsageError
from repotrial.cli._output import Screen, counted, print_error, print_json, print_json_line

ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=40)


class _Stream(io.TextIOWrapper):
    """Standard output as `main` prepares it, in some encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="backslashreplace", newline="")

    def bytes_written(self) -> bytes:
        self.flush()
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]  # it is the BytesIO from above
        return data


def _printed_json(value: object, *, encoding: str) -> bytes:
    kept, sys.stdout = sys.stdout, _Stream(encoding)
    try:
        print_json(value)
        return sys.stdout.bytes_written()
    finally:
        sys.stdout = kept


@given(ANYTHING)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
def test_json_is_valid_and_exact_in_every_encoding(encoding: str, text: str) -> None:
    written = _printed_json({"text": text}, encoding=encoding)
    assert json.loads(written.decode(encoding)) == {"text": text}
    assert written.decode(encoding).replace("\n", "").isprintable()


def test_json_stays_readable_where_the_terminal_can_show_it() -> None:
    assert "吾輩 → é" in _printed_json(["吾輩 → é"], encoding="utf-8").decode()


@given(ANYTHING)
def test_a_line_stays_one_printable_line(text: str) -> None:
    kept, sys.stdout = sys.stdout, _Stream("utf-8")
    try:
        Screen().line(text, (text, "bold"))
        (line,) = sys.stdout.bytes_written().decode().splitlines()
        assert line.isprintable()
    finally:
        sys.stdout = kept


def test_json_lines_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_line({"a": "x\ny"})
    print_json_line([1])
    assert capsys.readouterr().out == '{"a": "x\\ny"}\n[1]\n'


def test_an_error_says_what_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(UsageError("usage", "expected b, found c", hint="write b"), where="a")
    assert capsys.readouterr().err == "error[usage] a: expected b, found c\n  fix: write b\n"


def test_a_place_is_not_named_twice(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(UsageError("usage", "a: expected b"), where="a")
    assert capsys.readouterr().err == "error[usage] a: expected b\n"


def test_later_lines_of_a_message_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(UsageError("usage", "two problems:\none\ntwo"))
    assert capsys.readouterr().err == "error[usage] two problems:\n  | one\n  | two\n"


@pytest.mark.parametrize(("number", "expected"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_counted(number: int, expected: str) -> None:
    assert counted(number, "run") == expected
