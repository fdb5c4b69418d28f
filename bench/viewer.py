"""Pages at the end of a long trace against those at its beginning and reading it; search against grep."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial.redaction import SecretRedactor
from repotrial.trace import Exited, RunOpened, RunPaths, ToolInvocation, TraceWriter, iter_timeline
from repotrial.viewer import TraceIndex
from repotrial.viewer._catalog import ListQuery, RunCatalog
from repotrial.viewer._places import look_around

_EVENTS = 300_000
_RUNS = 10_000
_PAGE = 100
_ROUNDS = 15
_GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "data" / "golden-runs"


class ViewerFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One ratio with its goal."""

    name: str
    ratio: float
    goal: float
    is_at_most: bool
    note: str

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.goal if self.is_at_most else self.ratio >= self.goal

    def __str__(self) -> str:
        word = "at most" if self.is_at_most else "at least"
        met = "met" if self.is_met else "NOT met"
        load = os.getloadavg()[0]
        figure = f"{self.name}: {self.ratio:.1f}x (goal {word} {self.goal:g}x, {met})"
        return f"{figure}; {self.note}; load {load:.1f}"


def bench_viewer(events: int = _EVENTS, runs: int = _RUNS) -> list[ViewerFigure]:
    """Processor time of both sides; grep is a process of its own, with warm caches."""
    with tempfile.TemporaryDirectory(prefix="repotrial-bench-") as place:
        return [*_bench_pages(Path(place), events), _bench_search(Path(place), runs)]


def _bench_pages(place: Path, events: int) -> list[ViewerFigure]:
    run = place / "run"
    _write_trace(run, events)
    index = TraceIndex(run, place / "cache")
    building = _measure(index.refresh)
    size = RunPaths(run).trace.stat().st_size / 1e6
    first, last, whole = [], [], []
    for number in range(_ROUNDS):
        first.append(_measure(lambda: _open(index, 0)))
        last.append(_measure(lambda: _open(index, index.count - _PAGE)))
        if number < 3:
            whole.append(_measure(lambda: deque(iter_timeline(RunPaths(run)), maxlen=_PAGE)))
    expected = list(deque(iter_timeline(RunPaths(run)), maxlen=_PAGE))
    assert index.list_rows(index.count - _PAGE, _PAGE) == expected
    note = (
        f"{index.count} events, {size:.0f} MB; {1e3 * median(first):.2f} ms and {1e3 * median(last):.2f} ms"
    )
    return [
        ViewerFigure(
            name=f"page of {_PAGE} events at the end of a trace against one at its beginning",
            ratio=median(last) / median(first),
            goal=3,
            is_at_most=True,
            note=note,
        ),
        ViewerFigure(
            name="the same page against reading the trace",
            ratio=median(whole) / median(last),
            goal=50,
            is_at_most=False,
            note=f"reading {median(whole):.2f} s; the index, made once and kept, {building:.2f} s",
        ),
    ]


def _open(index: TraceIndex, first: int) -> object:
    index.refresh()
    return index.list_rows(first, _PAGE)


def _write_trace(run: Path, events: int) -> None:
    redactor = SecretRedactor({})
    opened = RunOpened(
        run_id="bench",
        manifest_digest=digest_bytes(b"x"),
        redaction_rules_id=redactor.rules_id,
        harness_version="0",
    )
    writer = TraceWriter.create(RunPaths(run), opened, redactor=redactor)
    for number in range(events - 1):
        call = ToolInvocation(
            tool="bash",
            source="gateway",
            arguments=writer.body(
                f'{{"command": "sed -n {number},+40p src/module_{number % 97}.py"}}'.encode()
            ),
            exit=Exited(code=0),
            started_at_us=1,
            wall_us=2,
        )
        writer.append(call, actor="agent")
    writer.close()


def _bench_search(place: Path, runs: int) -> ViewerFigure:
    """A word that one run has, in all of what runs left and in the list of them."""
    root = place / "runs"
    _write_runs(root, runs)
    catalog = RunCatalog(root, place / "cache")
    start = time.process_time()
    catalog.update(look_around(root))
    reading = time.process_time() - start
    word = "needle-in-one-run"
    rows, total = catalog.find(ListQuery(text=word), first=0, most=100)
    assert (len(rows), total) == (1, 1)
    ours = [_measure(lambda: catalog.find(ListQuery(text=word), first=0, most=100)) for _ in range(_ROUNDS)]
    peer = [_measure_children(["grep", "-rl", word, str(root)]) for _ in range(3)]
    catalog.close()
    return ViewerFigure(
        name=f"search over {runs} runs against grep -r",
        ratio=median(peer) / median(ours),
        goal=20,
        is_at_most=False,
        note=f"{1e3 * median(ours):.2f} ms against {median(peer):.2f} s; the list, made once, "
        f"{1e3 * reading / runs:.1f} ms for each run",
    )


def _write_runs(root: Path, runs: int) -> None:
    """Real run directories, copied by links; the change of one of them has a file of its own."""
    sources = sorted(path for path in _GOLDEN.iterdir() if path.is_dir())
    for number in range(runs):
        shutil.copytree(sources[number % len(sources)], root / f"run-{number}", copy_function=os.link)
    change = RunPaths(root / f"run-{runs // 2}").change
    text = change.read_bytes() + b"diff --git a/needle-in-one-run b/needle-in-one-run\n"
    change.unlink()
    change.write_bytes(text)


def _measure(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _measure_children(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system)
