"""Someone edits a sealed trace: every byte, every line, in every way that we can think of."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from repotrial.trace import Intact, PhaseChanged, RunPaths, TraceHead
from repotrial.trace._verify_chain import check_stream
from support.traces import RUN_ID, build_invocation, build_text, open_writer, write_trace

_FLIPS = [1 << bit for bit in range(8)] + [0xFF]


def _is_intact(data: bytes, head: TraceHead) -> bool:
    return isinstance(check_stream(BytesIO(data), run_id=RUN_ID, expected=head).status, Intact)


def _write_mixed(root: Path, events: int) -> tuple[bytes, TraceHead]:
    with open_writer(root) as writer:
        for number in range(events - 1):
            if number % 2:
                writer.append(build_invocation(build_text(f"{number} é 🐎")), actor="agent")
            else:
                writer.append(PhaseChanged(phase="act", previous=None), actor="monitor")
    return RunPaths(root).trace.read_bytes(), writer.head


def test_every_single_byte_change_at_every_position_is_detected(tmp_path: Path) -> None:
    data, head = _write_mixed(tmp_path, 20)
    assert _is_intact(data, head)
    edited = bytearray(data)
    for position, original in enumerate(data):
        # Every bit alone, all at once, and the bytes that end a line or a text.
        for value in {original ^ flip for flip in _FLIPS} | (set(b'\n"') - {original}):
            edited[position] = value
            assert not _is_intact(bytes(edited), head), (position, value)
        edited[position] = original


def test_a_removed_or_doubled_byte_at_every_position_is_detected(tmp_path: Path) -> None:
    data, head = _write_mixed(tmp_path, 20)
    for position in range(len(data)):
        assert not _is_intact(data[:position] + data[position + 1 :], head), position
        assert not _is_intact(data[:position] + data[position : position + 1] + data[position:], head), (
            position
        )


def test_a_cut_at_every_position_is_detected(tmp_path: Path) -> None:
    data, head = _write_mixed(tmp_path, 20)
    for position in range(len(data)):
        assert not _is_intact(data[:position], head), position


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
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, TraceHead]:
    root = tmp_path_factory.mktemp("run")
    head = write_trace(root, 1000)
    return RunPaths(root).trace.read_bytes(), head


@pytest.mark.parametrize("name", sorted(_EDITS))
def test_a_thousand_random_edits_of_each_kind_are_detected(
    name: str, long_trace: tuple[bytes, TraceHead]
) -> None:
    data, head = long_trace
    assert _is_intact(data, head)
    rng = random.Random(f"20260307 {name}")
    detected = 0
    while detected < 1000:
        edited = _EDITS[name](data, rng)
        if edited == data:  # a swap of equal bytes is no edit
            continue
        assert not _is_intact(edited, head), name
        detected += 1


def test_a_replaced_line_is_detected(long_trace: tuple[bytes, TraceHead]) -> None:
    data, head = long_trace
    rng = random.Random(20260307)
    for _ in range(200):
        edited = _edit_lines(_replace_line)(data, rng)
        assert edited == data or not _is_intact(edited, head)


def test_lines_of_another_run_cannot_be_spliced_in(
    tmp_path: Path, long_trace: tuple[bytes, TraceHead]
) -> None:
    data, head = long_trace
    write_trace(tmp_path, 1000, run_id="run-2")
    mine, other = (
        data.splitlines(keepends=True),
        RunPaths(tmp_path).trace.read_bytes().splitlines(keepends=True),
    )
    for at in (0, 1, 500, 999):
        assert not _is_intact(b"".join([*mine[:at], other[at], *mine[at + 1 :]]), head)
        assert not _is_intact(b"".join([*mine[:at], *other[at:]]), head)
