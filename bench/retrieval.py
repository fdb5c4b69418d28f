"""Retrieval: measures against pytrec_eval, both from raw lists; and whole runs, with the memory they take."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytrec_eval

from bench.trace import Part, Ratio
from repotrial import api
from repotrial.retrieval._stages import CUTOFFS, PORTION, measure_lists

__all__ = ["Flatness", "bench_measures", "bench_runs"]

_ROUNDS = 15
_LISTS = 2_000
_LENGTHS = (10, 30, 100)
_GROWTH = 1.1
_TASKS = 10

_List = tuple[list[str], list[str]]


def bench_measures(lists: int = _LISTS) -> Ratio:
    """All measures of many lists of paths, with everything that has to be built for them on either side.

    The peer computes 14 values for each list; ours are these, F1 at each cutoff and context efficiency.
    """
    parts = []
    for length in _LENGTHS:
        data = _build_lists(lists, length)
        _check_agreement(data)
        parts.append(Part(name=f"{length} files", ours_us=[], peer_us=[], note=f"{lists} lists"))
        for _ in range(_ROUNDS):
            parts[-1].ours_us.append(_measure(_measure_in_portions, data))
            parts[-1].peer_us.append(_measure(_measure_as_peer, data))
    return Ratio(name="retrieval measures against pytrec_eval, per list", goal=5, parts=tuple(parts))


def _measure(work: object, data: list[_List]) -> float:
    """CPU time for each list in microseconds."""
    assert callable(work)
    start = time.process_time()
    work(data)
    return (time.process_time() - start) * 1e6 / len(data)


def _measure_in_portions(lists: list[_List]) -> None:
    """As `retrieval evaluate` does it."""
    for start in range(0, len(lists), PORTION):
        measure_lists(lists[start : start + PORTION])


def _measure_as_peer(lists: list[_List]) -> dict[str, dict[str, float]]:
    truth = {str(number): dict.fromkeys(relevant, 1) for number, (_, relevant) in enumerate(lists)}
    ranked = {
        str(number): {path: float(len(files) - place) for place, path in enumerate(files)}
        for number, (files, _) in enumerate(lists)
    }
    depths = ",".join(map(str, CUTOFFS))
    wanted = {f"P.{depths}", f"recall.{depths}", f"ndcg_cut.{depths}", "recip_rank", "map"}
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(truth, wanted).evaluate(ranked)
    return found


def _check_agreement(lists: list[_List]) -> None:
    ours, peer = measure_lists(lists), _measure_as_peer(lists)
    names = {f"P_{k}": f"precision@{k}" for k in CUTOFFS} | {f"recall_{k}": f"recall@{k}" for k in CUTOFFS}
    names |= {f"ndcg_cut_{k}": f"ndcg@{k}" for k in CUTOFFS} | {"recip_rank": "mrr", "map": "map_score"}
    for number in range(len(lists)):
        for theirs, name in names.items():
            assert abs(peer[str(number)][theirs] - ours[name][number]) < 1e-9, (number, name)


def _build_lists(count: int, length: int) -> list[_List]:
    rng = random.Random(length)
    lists = []
    for _ in range(count):
        files = [f"src/package_{rng.randrange(60)}/module_{number}.py" for number in range(length)]
        missed = [f"src/never/met_{number}.py" for number in range(rng.randrange(3))]
        lists.append((files, rng.sample(files, 3) + missed))
    return lists


class Flatness(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a process that works through many runs, early and at the end."""

    name: str
    runs: int
    milliseconds: float
    """CPU time for each run."""
    early_mb: float
    late_mb: float
    goal: float

    @property
    def is_met(self) -> bool:
        return self.late_mb <= self.goal * self.early_mb

    def __str__(self) -> str:
        met = "met" if self.is_met else "NOT met"
        return (
            f"{self.name}: {self.late_mb / self.early_mb:.2f}x the memory after {self.runs} more as after"
            f" {self.runs // 4} (goal at most {self.goal:g}x, {met}); {self.early_mb:.1f} MB, then"
            f" {self.late_mb:.1f} MB; {self.milliseconds:.1f} ms for each run; load {os.getloadavg()[0]:.1f}"
        )


def bench_runs(runs: int = 1_000) -> Flatness:
    """Normalize, evaluate and compare small run directories, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="repotrial-bench-") as place:
        root = Path(place)
        for portion in ("early", "late"):
            for number in range(runs // 4 if portion == "early" else runs):
                _write_run(root / portion / f"fix_bench_{number:04}", f"bench-{number % _TASKS}", number)
        for number in range(_TASKS):
            _write_task(root / "tasks" / f"bench-{number}")
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work_through, args=(root, theirs))
        process.start()
        early_mb, late_mb, seconds = ours.recv()
        process.join()
    return Flatness(
        name="retrieval of whole run directories",
        runs=runs,
        milliseconds=seconds * 1000 / runs,
        early_mb=early_mb,
        late_mb=late_mb,
        goal=_GROWTH,
    )


def _work_through(root: Path, pipe: Connection) -> None:
    _work(root / "early")
    early_mb = _resident_mb()
    start = time.process_time()
    _work(root / "late")
    pipe.send((early_mb, _resident_mb(), time.process_time() - start))


def _work(runs: Path) -> None:
    request = api.NormalizationRequest(directory=runs, tasks=runs.parent / "tasks", is_all=True)
    assert api.normalize_retrieval(request).holds
    assert api.evaluate_retrieval(runs, is_all=True).summary.computable_tasks
    api.compare_retrieval([runs])


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _write_task(task: Path) -> None:
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text(f'[task]\nid = "{task.name}"\n', encoding="utf-8")
    patch = "--- a/src/module_3.py\n+++ b/src/module_3.py\n@@ -1 +1 @@\n-x\n+y\n"
    (task / "tests" / "reference_fix.patch").write_text(patch, encoding="utf-8")


def _write_run(run: Path, task: str, number: int) -> None:
    for place, config in enumerate(("baseline", "mcp")):
        trial = run / config / "2026-03-01__12-00-00" / f"{task}__{config}"
        (trial / "agent").mkdir(parents=True)
        result = {"task_name": task, "verifier_result": {"rewards": {"reward": (number + place) % 2}}}
        (trial / "result.json").write_text(json.dumps(result), encoding="utf-8")
        lines = [line for turn in range(20) for line in _build_turn((turn + number) % 23)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (trial / "agent" / "claude-code.txt").write_text(text, encoding="utf-8")


def _build_turn(turn: int) -> list[dict[str, object]]:
    call = {
        "type": "tool_use",
        "id": f"toolu_{turn}",
        "name": "Read",
        "input": {"file_path": f"/workspace/src/module_{turn}.py"},
    }
    result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "text\n" * 40}
    return [
        {"type": "assistant", "message": {"id": f"m{turn}", "role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]
