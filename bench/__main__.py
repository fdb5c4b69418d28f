"""`python -m bench [--events N] [--strict]`: every ratio beside its goal and the load of the machine."""

from __future__ import annotations

import argparse
import os
import sys
from statistics import median

from bench.analysis import bench_analysis
from bench.gateway import bench_gateway
from bench.importers import bench_harbor, bench_importers, bench_parsing
from bench.overhead import bench_overhead
from bench.retrieval import bench_measures, bench_runs
from bench.sandbox import bench_sandbox
from bench.supervisor import bench_witness
from bench.trace import Part, Ratio, bench_append, bench_verify
from bench.viewer import bench_viewer
from bench.workspace import bench_workspace


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed as ratios against peers.")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the trace that is verified")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is not met")
    arguments = parser.parse_args()
    ratios = []
    for ratio in (
        bench_append(1_000),
        bench_verify(arguments.events),
        bench_workspace(),
        bench_parsing(),
        bench_importers(),
        bench_harbor(),
        bench_measures(),
        bench_analysis(),
    ):
        print(render_ratio(ratio), flush=True)
        ratios.append(ratio)
    viewed = bench_viewer()
    for figure in viewed:
        print(figure, flush=True)
    flatness = bench_runs()
    print(flatness, flush=True)
    latencies = bench_gateway()
    for latency in latencies:
        print(latency, flush=True)
    witnessed = bench_witness()
    for overhead in witnessed:
        print(overhead, flush=True)
    if not witnessed:
        print("witness of programs: not measured, bubblewrap is not installed", flush=True)
    isolation = bench_sandbox()
    for overhead in isolation:
        print(overhead, flush=True)
    if not isolation:
        print("sandboxes and whole runs: not measured, this machine does not reach L3", flush=True)
    whole_runs = [bench_overhead()] if isolation else []
    for whole_run in whole_runs:
        print(whole_run, flush=True)
    overheads = [*isolation, *witnessed]
    met = [
        *(ratio.is_met for ratio in ratios),
        flatness.is_met,
        *(figure.is_met for figure in viewed),
        *(latency.is_met for latency in latencies),
        *(overhead.is_met for overhead in overheads),
        *(whole_run.is_met for whole_run in whole_runs),
    ]
    return 1 if arguments.strict and not all(met) else 0


def render_ratio(ratio: Ratio) -> str:
    met = "met" if ratio.is_met else "NOT met"
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    lines = [f"{ratio.name}: {ratio.ratio:.1f}x (goal {ratio.goal:g}x, {met}); load {load}"]
    lines += [_render_part(part) for part in ratio.parts]
    return "\n".join(lines)


def _render_part(part: Part) -> str:
    ours_us, peer_us = median(part.ours_us), median(part.peer_us)
    return (
        f"  {part.name}: {peer_us / ours_us:.1f}x; ours {ours_us:.2f} us, peer {peer_us:.2f} us per event;"
        f" {part.note}"
    )


if __name__ == "__main__":
    sys.exit(main())
