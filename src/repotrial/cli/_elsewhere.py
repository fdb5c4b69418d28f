"""Runs that workers on other machines conduct: what the command line says about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._output import Screen, counted, print_json_line

STORE_UNNAMED = ErrorCode(
    "store-unnamed",
    UsageError,
    "An engine was to start workers, and no store was named for their plan.",
    hint="name a place that all machines reach with --store: file:DIR or s3://BUCKET/PREFIX",
)


def start_elsewhere(
    engine: Literal["slurm", "dask", "kubernetes"] | None,
    engine_file: Path | None,
    store: str,
    key_file: Path,
    *,
    json: bool,
) -> None:
    """Have workers started by an engine, or say how to start them by hand."""
    if engine is None:
        if not json:
            Screen().line((f"next: repotrial fleet work {store}   (on every machine)", "dim"))
        return
    fleet = api.Fleet(store, os.environ)
    started = fleet.start(engine, engine_file, key_file=key_file, directory=Path("fleet"))
    if json:
        print_json_line({"event": "engine", "started": started})
        return
    screen = Screen()
    if started.file is not None:
        screen.line(f"{engine}: {started.file}")
    if started.jobs:
        screen.line(f"{engine}: {', '.join(started.jobs)}")
    screen.line((f"next: {started.next_step}; repotrial fleet status {store}", "dim"))


def tell_shared(plan: api.TrialPlan, store: str, promises: str, *, json: bool) -> None:
    """Say that a plan is in a store now."""
    planned = len(plan.fleet.runs)
    if json:
        print_json_line({"event": "shared", "store": store, "planned": planned, "promises": promises})
    else:
        Screen().line(f"the plan of {counted(planned, 'run')} is in {store} ({promises})")
