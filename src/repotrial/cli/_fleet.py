"""`repotrial fleet`: workers on any machine, and what people ask of them. The store alone is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from repotrial import api
from repotrial._core.errors import ExitCode
from repotrial.cli._elsewhere import start_elsewhere
from repotrial.cli._machine import CacheOption, CustodyOption, build_settings, make_runs_directory
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json, print_json_line
from repotrial.cli._signals import stop_on_signals
from repotrial.cli._trace import find_key_file

app = noun("fleet", "Fleets: workers on many machines that share a plan in a store.")

StoreUrl: TypeAlias = Annotated[
    str, typer.Argument(metavar="STORE", help="file:DIR or s3://BUCKET/PREFIX, where the plan is.")
]


@app.command(
    "work",
    short_help="Claim runs of a plan, conduct them and hand them in.",
    epilog="Example: repotrial fleet work s3://trials/spring --slots 4",
)
def work(  # noqa: PLR0913 - one option for each thing that an operator decides
    store: StoreUrl,
    *,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Runs at a time.")] = 1,
    idle_seconds: Annotated[
        float, typer.Option("--idle-seconds", min=0, help="End after so long with nothing to claim.")
    ] = 90.0,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The study's private key, which vouches for this worker's own; this machine's if left out.",
        ),
    ] = None,
    other_class: Annotated[
        Literal["refuse", "label"],
        typer.Option("--other-class", help="What to do on a machine of another class than the first one."),
    ] = "refuse",
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret", metavar="NAME", help="A secret of the contracts, from the environment (repeatable)."
        ),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", readable=False, help="Where attempts are conducted."),
    ] = None,
    cache: CacheOption = None,
    custody: CustodyOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event, one per line.")
    ] = False,
) -> None:
    """Work on the plan in a store: claim the first open run, conduct it, hand it in, and again.

    Every engine starts this one command. It checks release, level, prices and thresholds before it claims,
    and ends when there is nothing to claim. Exit code 3 if it could not begin some runs, 130 after Ctrl-C.
    """
    request = api.WorkRequest(
        slots=slots,
        idle_seconds=idle_seconds,
        key_file=find_key_file(key_file),
        labels_other_class=other_class == "label",
        work=work_dir,
    )
    screen, stopper, faults = Screen(), api.Stopper(), 0
    with stop_on_signals(stopper.stop) as asked:
        for event in api.Fleet(store, os.environ).work(
            request,
            build_settings(cache, secrets=secrets or (), custody=custody),
            stopper=stopper,
            on_install=lambda name: Screen(to_stderr=True).line(f"installing {name} …"),
        ):
            faults += event.word == "fault"
            if json:
                print_json_line(event)
            else:
                screen.line(_describe(event))
    code = asked.exit_code or (ExitCode.MACHINE_CANNOT if faults else ExitCode.DONE)
    if code:
        raise typer.Exit(code)


@app.command(
    "start",
    short_help="Have an engine start workers on a plan.",
    epilog="Example: repotrial fleet start s3://trials/spring --on slurm --engine engine.toml",
)
def start(
    store: StoreUrl,
    *,
    engine: Annotated[
        Literal["slurm", "dask", "kubernetes"], typer.Option("--on", help="The engine that starts them.")
    ],
    engine_file: Annotated[
        Path | None,
        typer.Option(
            "--engine", metavar="TOML", readable=False, help="How the engine starts them: number, slots …"
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The study's private key, as workers find it; this machine's own if left out.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Have an engine start workers on the plan that is in a store; more of them, or again."""
    start_elsewhere(engine, engine_file, store, find_key_file(key_file), json=json)


def _describe(event: api.WorkerEvent) -> str:
    which = f" {event.run_id} (attempt {event.epoch})" if event.run_id else ""
    return f"{event.word.replace('-', ' ')}{which}{f': {event.message}' if event.message else ''}"


@app.command(
    "status",
    short_help="Show how far the runs of a plan are.",
    epilog="Example: repotrial fleet status s3://trials/spring --json",
)
def status(store: StoreUrl, *, json: JsonFlag = False) -> None:
    """Show how far the runs of a plan are. The store is asked, no worker and no engine."""
    found = api.Fleet(store, os.environ).read_status()
    if json:
        print_json(found)
        return
    screen = Screen()
    screen.line((f"{found.done} of {found.planned} runs done", "bold"), f", {found.invalid} of them invalid")
    screen.line(f"{found.claimed} under way, {found.silent} of them silent; {found.attempts} attempts")
    limit = "" if found.total_usd is None else f" of {found.total_usd} USD"
    screen.line(f"{found.spent_usd} USD spent, {found.reserved_usd} USD reserved{limit}")
    if found.is_stopped:
        screen.line(("workers were told to stop", "yellow"))
    if found.is_over:
        screen.line((f"next: repotrial fleet pull {store} --out runs", "dim"))


@app.command(
    "logs", short_help="Show what workers did.", epilog="Example: repotrial fleet logs file:/shared/spring"
)
def logs(store: StoreUrl, *, json: JsonFlag = False) -> None:
    """Show what all workers did, in the order of their clocks."""
    found = api.Fleet(store, os.environ).read_log()
    if json:
        print_json(found)
        return
    screen = Screen()
    for line in found:
        screen.line((f"{line.worker}  ", "dim"), _describe(line))


@app.command(
    "stop", short_help="Tell all workers to end.", epilog="Example: repotrial fleet stop s3://trials/spring"
)
def stop(store: StoreUrl, *, json: JsonFlag = False) -> None:
    """Tell all workers to end. Runs under way are sealed as they stand, and do not count."""
    is_new = api.Fleet(store, os.environ).stop()
    if json:
        print_json({"store": store, "is_new": is_new})
        return
    Screen().line("workers end with their next heartbeat" if is_new else "workers were told before")


@app.command(
    "pull",
    short_help="Bring records from a store into a directory of runs.",
    epilog="Example: repotrial fleet pull s3://trials/spring --out runs",
)
def pull(
    store: StoreUrl,
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="Where run directories are made.")
    ] = Path("runs"),
    counted_only: Annotated[
        bool, typer.Option("--counted-only", help="Leave out attempts that do not count.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Bring records here as run directories; every digest is checked, and what is here stays.

    Attempts of which another one counts come to `.superseded`: they are cost, not runs.
    """
    make_runs_directory(out)
    found = [*api.Fleet(store, os.environ).pull(out, is_counted_only=counted_only)]
    if json:
        print_json(found)
        return
    runs = sum(each.is_counted for each in found)
    Screen().line(f"{counted(runs, 'run')} in {out}, {len(found) - runs} other attempts")
