"""A plan in a store and workers on it, with attempts that take no sandbox: the protocol alone."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.contract import AgentSpec, ConfigurationSpec, RunCaps, RunSpec
from repotrial.fleet import (
    Conducted,
    FleetSite,
    NotConducted,
    SharedEnvelopes,
    SharedPlan,
    SharedRun,
    Worker,
    WorkerSettings,
)
from repotrial.run import NoopAgent, Stopper
from repotrial.store import Store, open_store

_ZERO = digest_bytes(b"")
RESERVED = 2_000_000
"""Micro dollars that an attempt may cost."""
COST = 1_250_000
"""Micro dollars that it does cost."""


def build_plan(
    runs: int, *, ttl_seconds: float = 2.0, total_usd: str | None = None, task_usd: str | None = None
) -> SharedPlan:
    """Runs of which nothing but their ids is needed."""
    shared = tuple(
        SharedRun(
            spec=RunSpec(
                contract_id="small",
                contract_version_id=_ZERO,
                statement_digest=_ZERO,
                agent=AgentSpec(
                    name="noop",
                    version="1",
                    model=None,
                    parameters={},
                    prompts_digest=None,
                    adapter_digest=_ZERO,
                ),
                configuration=ConfigurationSpec(isolation=Level.L3, caps=RunCaps()),
                root_seed=ROOT_SEED,
                replicate=number,
            ),
            contract="contracts/small",
            agent=_ZERO,
            reserved_micro_usd=RESERVED,
        )
        for number in range(runs)
    )
    return SharedPlan(
        conditions={},
        study_keys=(),
        ttl_seconds=ttl_seconds,
        envelopes=SharedEnvelopes.build(
            total=None if total_usd is None else Decimal(total_usd),
            task=None if task_usd is None else Decimal(task_usd),
        ),
        agents={_ZERO: NoopAgent()},
        runs=shared,
    )


class Attempts:
    """Attempts that note when they begin and end, where every process can see it."""

    def __init__(self, place: Path, *, seconds: float = 0.0) -> None:
        self._place = place
        self._seconds = seconds
        self.journal = place / "journal.jsonl"
        self._runs = place / f"runs-{uuid.uuid4().hex}"
        self._runs.mkdir(parents=True)

    def __call__(self, run: SharedRun, epoch: int, stopper: Stopper) -> Conducted | NotConducted:
        def is_cut() -> bool:
            return stopper.is_stopped

        if is_cut():
            return NotConducted(fault=None)
        self._note("begin", run, epoch)
        until = time.monotonic() + self._seconds
        while time.monotonic() < until and not is_cut():
            time.sleep(0.005)
        was_cut = is_cut()
        self._note("cut" if was_cut else "end", run, epoch)
        directory = self._runs / f"{run.run_id}-a{epoch}"
        directory.mkdir()
        (directory / "trace.jsonl").write_text(f"{run.run_id} {epoch} {uuid.uuid4().hex}\n")
        (directory / "seal.json").write_text(json.dumps({"run": run.run_id, "epoch": epoch}))
        return Conducted(
            directory=directory,
            word="superseded" if was_cut else "valid",
            cost_micro_usd=COST // 2 if was_cut else COST,
        )

    def _note(self, word: str, run: SharedRun, epoch: int) -> None:
        line = {"word": word, "run": run.run_id, "epoch": epoch, "pid": os.getpid(), "at": time.monotonic()}
        handle = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)


def build_worker(
    store: Store, attempts: Attempts, place: Path, *, slots: int = 1, idle_seconds: float = 20.0
) -> tuple[Worker, Stopper]:
    """A worker on the plan that is in the store."""
    stopper = Stopper()
    work = place / f"work-{uuid.uuid4().hex}"
    work.mkdir(parents=True)
    settings = WorkerSettings(
        store=store,
        plan=FleetSite.open(store).plan,
        conduct=attempts,
        name=f"w-{uuid.uuid4().hex[:8]}",
        work=work,
        slots=slots,
        idle_seconds=idle_seconds,
        stopper=stopper,
    )
    return Worker(settings), stopper


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What must be 0, whatever happened."""

    lost: int
    """Planned runs without a record that counts."""
    counted_twice: int
    """Runs whose marker names another record than the one that is there, or that has more than one."""
    under_way_twice: int
    """Moments at which two attempts at one run were at work."""
    overdrawn_micro_usd: int

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.counted_twice or self.under_way_twice or self.overdrawn_micro_usd)


def examine(store: Store, journal: Path, dead: Sequence[tuple[int, float]] = ()) -> Findings:
    """Hold the store against the journal of attempts.

    Args:
        store: With a plan.
        journal: What attempts noted.
        dead: Processes that were killed, and when: what they had begun ended there.
    """
    site = FleetSite.open(store)
    plan, board = site.plan, site.look()
    total = plan.envelopes.total_micro_usd
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    markers = {
        state.run.run_id: store.read(f"{state.folder}/done") for state in board.states if state.is_done
    }
    named = [json.loads(data)["record"] for data in markers.values()]
    records = {each.record for state in board.states for each in state.attempts.values()}
    return Findings(
        lost=sum(not state.is_done for state in board.states),
        counted_twice=len(named) - len(set(named) & records),
        under_way_twice=sum(_count_overlaps(lines, run.run_id, dict(dead)) for run in plan.runs),
        overdrawn_micro_usd=0 if total is None else max(0, board.sum_committed() - total),
    )


def _count_overlaps(lines: Sequence[dict[str, object]], run_id: str, dead: dict[int, float]) -> int:
    spans: dict[tuple[object, object], list[float]] = {}
    for line in lines:
        if line["run"] == run_id:
            spans.setdefault((line["pid"], line["epoch"]), []).append(float(str(line["at"])))
    ends = [
        (times[0], times[1] if len(times) > 1 else dead.get(int(str(pid)), float("inf")))
        for (pid, _), times in spans.items()
    ]
    ends.sort()
    return sum(later[0] < earlier[1] for earlier, later in itertools.pairwise(ends))


def main() -> None:
    """A worker in a process of its own: URL, place, seconds of an attempt, slots."""
    url, place, seconds, slots = sys.argv[1:5]
    store = open_store(url, os.environ)
    worker, _ = build_worker(
        store, Attempts(Path(place), seconds=float(seconds)), Path(place), slots=int(slots)
    )
    for event in worker.work():
        sys.stdout.write(f"{event.word} {event.run_id} {event.epoch}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

__all__ = ["COST", "RESERVED", "Attempts", "Findings", "build_plan", "build_worker", "examine"]
