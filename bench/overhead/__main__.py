"""`python -m bench.overhead [--runs N] [--rounds N] [--jobs N]`: this bench alone."""

from __future__ import annotations

import argparse
import sys

from bench.overhead import bench_overhead


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description="What a run costs.")
    parser.add_argument("--runs", type=int, default=200, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, help="runs of ours at a time; three a processor unless told")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where the goal is not met")
    arguments = parser.parse_args()
    overhead = bench_overhead(arguments.runs, rounds=arguments.rounds, jobs=arguments.jobs)
    print(overhead, flush=True)
    return 1 if arguments.strict and not overhead.is_met else 0


if __name__ == "__main__":
    sys.exit(main())
