"""What a harness adds to a run that does next to nothing: ours, isolated and sealed, against a peer's."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from bench.overhead.peer import PeerMissing, find_peer
from bench.overhead.worker import Batch, Worker, build_own_argv

__all__ = ["RunOverhead", "bench_overhead"]

_RUNS: Final = 200
_ROUNDS: Final = 3
_GOAL: Final = 1.3
_GROWTH_GOAL: Final = 1.05
"""Of the harness's memory between the 50th run of a round and its last."""


class RunOverhead(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of runs, turn about; a ratio over 1 says that ours takes less time."""

    runs: int
    """In each batch."""
    ours: tuple[Batch, ...]
    peer: tuple[Batch, ...]
    """Empty where there is no peer."""
    note: str

    @property
    def ratio(self) -> float | None:
        """By the medians of the rounds; null without a peer."""
        return _find_median(self.peer) / _find_median(self.ours) if self.peer else None

    @property
    def growth(self) -> float:
        """Of our memory within the first round, in which nothing is warm."""
        return self.ours[0].last_rss_kb / self.ours[0].early_rss_kb

    @property
    def is_met(self) -> bool:
        return (self.ratio is None or self.ratio >= _GOAL) and self.growth <= _GROWTH_GOAL

    def __str__(self) -> str:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        met = "met" if self.is_met else "NOT met"
        ratio = "not measured against a peer" if self.ratio is None else f"{self.ratio:.2f}x"
        lines = [f"{self.runs} trivial runs: {ratio} (goal {_GOAL:g}x, {met}); {self.note}; load {load}"]
        lines += [f"  ours, L3, sealed: {_describe(self.ours, self.runs)}"]
        if self.peer:
            lines += [f"  peer, no isolation: {_describe(self.peer, self.runs)}"]
            pairs = (peer.seconds / ours.seconds for ours, peer in zip(self.ours, self.peer, strict=True))
            lines += [f"  ratio of each round: {', '.join(f'{pair:.2f}x' for pair in pairs)}"]
        first, last = self.ours[0], self.ours[-1]
        lines.append(
            f"  memory of our harness: {first.early_rss_kb} kB after 50 runs, {first.last_rss_kb} kB after"
            f" {self.runs} ({self.growth:.3f}x, goal at most {_GROWTH_GOAL:g}x),"
            f" {last.last_rss_kb} kB after {self.runs * len(self.ours)}"
        )
        return "\n".join(lines)


def bench_overhead(runs: int = _RUNS, *, rounds: int = _ROUNDS, jobs: int | None = None) -> RunOverhead:
    """One command and one check in each run, many times, in both harnesses turn about."""
    chosen = jobs or 6 * (os.cpu_count() or 1)  # runs wait for processes, for the kernel and for the disk
    place = Path(tempfile.mkdtemp(prefix="repotrial-bench-")).resolve()
    place.chmod(0o755)  # programs in a sandbox have another account
    ours: list[Batch] = []
    theirs: list[Batch] = []
    try:
        peer = find_peer(place / "peer")
        if isinstance(peer, PeerMissing):
            print(f"trivial runs against a peer: not measured, {peer.reason}", flush=True)
        with Worker(build_own_argv(place / "ours", jobs=chosen)) as own_worker:
            if isinstance(peer, PeerMissing):
                ours = [own_worker.measure(runs) for _ in range(rounds)]
            else:
                with Worker(peer.argv, variables=peer.variables) as peer_worker:
                    for number in range(rounds):
                        turns = [(own_worker, ours), (peer_worker, theirs)]
                        for worker, batches in turns if number % 2 else reversed(turns):
                            batches.append(worker.measure(runs))
    finally:
        shutil.rmtree(place)
    named = "no peer" if isinstance(peer, PeerMissing) else peer.name
    return RunOverhead(
        runs=runs,
        ours=tuple(ours),
        peer=tuple(theirs),
        note=f"{named}; {chosen} at a time, the peer all at once; medians of {rounds} rounds",
    )


def _find_median(batches: tuple[Batch, ...]) -> float:
    return statistics.median(batch.seconds for batch in batches)


def _describe(batches: tuple[Batch, ...], runs: int) -> str:
    wall = _find_median(batches) / runs * 1000
    best = min(batch.seconds for batch in batches) / runs * 1000
    cpu = statistics.median(batch.cpu_seconds for batch in batches) / runs * 1000
    own = statistics.median(batch.own_cpu_seconds for batch in batches) / runs * 1000
    return (
        f"{wall:.1f} ms a run by the clock (best round {best:.1f});"
        f" processor {cpu:.1f} ms, of which {own:.1f} ms in the harness's own process"
    )
