"""Pages, jumps and searches in a trace by where its lines begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial._core.errors import EvidenceError
from repotrial.trace import RunPaths, iter_timeline
from repotrial.viewer import TraceIndex
from support.score_runs import ScoreRun


def _write(root: Path, calls: int) -> Path:
    run = ScoreRun(root)
    for number in range(calls):
        run.builder.tool(arguments=f"call Number{number}", output=b"out")
    run.end_acting()
    return run.finish()


def _open(run: Path, cache: Path | None = None) -> TraceIndex:
    index = TraceIndex(run, cache)
    index.refresh()
    return index


def test_every_page_is_what_reading_the_whole_trace_gives(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", 40)
    index = _open(run)
    rows = list(iter_timeline(RunPaths(run)))
    assert index.count == len(rows)
    assert [index.list_rows(first, 7) for first in range(0, len(rows), 7)] == [
        rows[first : first + 7] for first in range(0, len(rows), 7)
    ]
    assert index.list_rows(len(rows), 7) == []


def test_events_are_found_by_type_and_by_text_whatever_the_case(tmp_path: Path) -> None:
    index = _open(_write(tmp_path / "run", 40))
    calls = index.list_of({"tool-invocation"})
    assert len(calls) == index.count_types()["tool-invocation"] == 40
    assert index.find_text("number17", first=0, most=10) == ([calls[17]], None)
    found, following = index.find_text("call number", first=0, most=10)
    assert (found, following) == (calls[:10], calls[9] + 1)
    assert index.find_text("call number", first=calls[9] + 1, most=100) == (calls[10:], None)
    assert index.find_text("no such text", first=0, most=10) == ([], None)


def test_a_trace_that_grows_is_read_on_and_half_a_line_waits(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", 20)
    trace = RunPaths(run).trace
    whole = trace.read_bytes()
    cut = whole.rindex(b"\n", 0, len(whole) // 2) + 1
    trace.write_bytes(whole[: cut + 5])
    index = _open(run)
    assert index.count == whole[:cut].count(b"\n")
    with trace.open("ab") as stream:
        stream.write(whole[cut + 5 :])
    assert index.refresh() == whole.count(b"\n")
    assert index.list_rows(0, 1000) == list(iter_timeline(RunPaths(run)))


def test_an_index_of_another_trace_is_not_believed(tmp_path: Path) -> None:
    run, other = _write(tmp_path / "run", 30), _write(tmp_path / "other", 60)
    index = _open(run)
    trace = RunPaths(run).trace
    trace.write_bytes(RunPaths(other).trace.read_bytes())
    assert index.refresh() == RunPaths(other).trace.read_bytes().count(b"\n")
    os.truncate(trace, 0)
    assert index.refresh() == 0


def test_a_kept_index_serves_the_next_start_and_a_broken_one_is_made_anew(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    line = b'{"actor":"agent","hash":"%s","payload":{},"seq":%d,"t":1,"type":"made-up"}\n'
    RunPaths(run).trace.write_bytes(b"".join(line % (b"0" * 64, n) for n in range(6_000)))
    cache = tmp_path / "cache"
    assert _open(run, cache).count == 6_000
    (kept,) = cache.iterdir()
    assert TraceIndex(run, cache).count == 6_000, "without a look at the trace"
    assert _open(run, cache).list_of({"made-up"})[-1] == 5_999
    kept.write_bytes(kept.read_bytes()[:1000])
    assert _open(run, cache).count == 6_000
    kept.write_bytes(b"[1, 2]\n")
    assert _open(run, cache).count == 6_000


def test_a_line_that_is_no_event_is_an_error_where_it_stands_and_nowhere_else(tmp_path: Path) -> None:
    run = _write(tmp_path / "run", 30)
    trace = RunPaths(run).trace
    lines = trace.read_bytes().splitlines(keepends=True)
    lines[20] = b'{"type":"prompt"}\n'
    trace.write_bytes(b"".join(lines))
    index = _open(run)
    assert len(index.list_rows(0, 20)) == 20
    with pytest.raises(EvidenceError):
        index.list_rows(15, 10)
    assert [row.seq for row in index.list_rows(21, 5)] == [21, 22, 23, 24, 25]
    assert index.load_event(10_000) is None
