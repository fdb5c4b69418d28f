"""Someone edits a sealed trace: every byte, every line, in every way that we can think of."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from repotrial.trace import PhaseChanged, RunPaths, TraceHead
from repotrial.trace._verify_chain import Intact
from support.exhaustive import IS_EXHAUSTIVE
from support.resumed_check import ResumedCheck
from support.traces import RUN_ID, build_invocation, build_text, open_writer, write_trace

_FLIPS = [1 << bit for bit in range(8)] + [0xFF]
_ANEW = 1 if IS_EXHAUSTIVE else 100
"""One edit of so many is also verified from the first line on."""


class _Judge:
    """Says whether edited copies of a trace pass; every so often in both ways, which must agree."""

    def __init__(self, data: bytes, head: TraceHead) -> None:
        self._resumed = ResumedCheck(data, head, run_id=RUN_ID)
        self._count = 0

    def is_intact(self, edited: bytes) -> bool:
        status = self._resumed.find_status(edited)
        self._count += 1
        if self._count % _ANEW == 1:
            assert status == self._resumed.find_status_anew(edited)
        return isinstance(status, Intact)


def _write_mixed(root: Path, events: int) -> tuple[bytes, TraceHead]:
    with open_writer(root) as writer:
        for number in range(events - 1):
            if number % 2:
                writer.append(build_invocation(build_text(f"{number} é 🐎")), actor="agent")
            else:
                writer.append(PhaseChanged(phase="act", previous=None), actor="monitor")
    return RunPaths(root).trace.read_bytes(), writer.head


@pytest.fixture(scope="module")
def short_trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, _Judge]:
    data, head = _write_mixed(tmp_path_factory.mktemp("run"), 20)
    judge = _Judge(data, head)
    assert judge.is_intact(data)
    return data, judge


def test_every_single_byte_change_at_every_position_is_detected(short_trace: tuple[bytes, _Judge]) -> None:
    data, judge = short_trace
    edited = bytearray(data)
    for position, original in enumerate(data):
        # Every bit alone, all at once, and the bytes that end a line or a text.
        for value in {original ^ flip for flip in _FLIPS} | (set(b'\n"') - {original}):
            edited[position] = value
            assert not judge.is_intact(bytes(edited)), (position, value)
        edited[position] = original


def test_a_removed_or_doubled_byte_at_every_position_is_detected(short_trace: tuple[bytes, _Judge]) -> None:
    data, judge = short_trace
    for position in range(len(data)):
        assert not judge.is_intact(data[:position] + data[position + 1 :]), position
        assert not judge.is_intact(data[:position] + data[position : position + 1] + data[position:]), (
            position
        )


def test_a_cut_at_every_position_is_detected(short_trace: tuple[bytes, _Judge]) -> None:
    data, judge = short_trace
    for position in range(len(data)):
        assert not judge.is_intact(data[:position]), position


_Edit = Callable[[bytes, random.Random], bytes]


def _change_bytes(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data)), rng.randint(1, 8)
    return data[:at] + rng.randbytes(length) + data[at + length :]


def _delete_bytes(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data)), rng.randint(1, 300)
    return data[:at] + data[at + length :]


def _insert_bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([rng.randbytes(3), b"\n", b" ", b"{}\n", b"\0"]) + data[at:]


def _swap_bytes(data: bytes, rng: random.Random) -> bytes:
    edited = bytearray(data)
    one, other = rng.randrange(len(data)), rng.randrange(len(data))
    edited[one], edited[other] = edited[other], edited[one]
    return bytes(edited)


def _duplicate_bytes(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data)), rng.randint(1, 300)
    return data[: at + length] + data[at : at + length] + data[at + length :]


def _truncate_bytes(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _edit_lines(edit: Callable[[list[bytes], random.Random], list[bytes]]) -> _Edit:
    def apply(data: bytes, rng: random.Random) -> bytes:
        return b"".join(edit(data.splitlines(keepends=True), rng))

    return apply


def _delete_line(lines: list[bytes], rng: random.Random) -> list[bytes]:
    del lines[rng.randrange(len(lines))]
    return lines


def _duplicate_line(lines: list[bytes], rng: random.Random) -> list[bytes]:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return lines


def _swap_lines(lines: list[bytes], rng: random.Random) -> list[bytes]:
    one, other = rng.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _truncate_lines(lines: list[bytes], rng: random.Random) -> list[bytes]:
    return lines[: rng.randrange(len(lines))]


def _replace_line(lines: list[bytes], rng: random.Random) -> list[bytes]:
    lines[rng.randrange(len(lines))] = rng.choice(lines)
    return lines


_EDITS: dict[str, _Edit] = {
    "change-bytes": _change_bytes,
    "delete-bytes": _delete_bytes,
    "insert-bytes": _insert_bytes,
    "swap-bytes": _swap_bytes,
    "duplicate-bytes": _duplicate_bytes,
    "truncate-bytes": _truncate_bytes,
    "delete-line": _edit_lines(_delete_line),
    "duplicate-line": _edit_lines(_duplicate_line),
    "swap-lines": _edit_lines(_swap_lines),
    "truncate-lines": _edit_lines(_truncate_lines),
}


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, _Judge]:
    root = tmp_path_factory.mktemp("run")
    head = write_trace(root, 1000)
    data = RunPaths(root).trace.read_bytes()
    judge = _Judge(data, head)
    assert judge.is_intact(data)
    return data, judge


@pytest.mark.parametrize("name", sorted(_EDITS))
def test_a_thousand_random_edits_of_each_kind_are_detected(
    name: str, long_trace: tuple[bytes, _Judge]
) -> None:
    data, judge = long_trace
    rng = random.Random(f"20260307 {name}")
    detected = 0
    while detected < 1000:
        edited = _EDITS[name](data, rng)
        if edited == data:  # a swap of equal bytes is no edit
            continue
        assert not judge.is_intact(edited), name
        detected += 1


def test_a_replaced_line_is_detected(long_trace: tuple[bytes, _Judge]) -> None:
    data, judge = long_trace
    rng = random.Random(20260307)
    for _ in range(200):
        edited = _edit_lines(_replace_line)(data, rng)
        assert edited == data or not judge.is_intact(edited)


def test_lines_of_another_run_cannot_be_spliced_in(tmp_path: Path, long_trace: tuple[bytes, _Judge]) -> None:
    data, judge = long_trace
    write_trace(tmp_path, 1000, run_id="run-2")
    mine, other = (
        data.splitlines(keepends=True),
        RunPaths(tmp_path).trace.read_bytes().splitlines(keepends=True),
    )
    for at in (0, 1, 500, 999):
        assert not judge.is_intact(b"".join([*mine[:at], other[at], *mine[at + 1 :]]))
        assert not judge.is_intact(b"".join([*mine[:at], *other[at:]]))
