"""`repotrial pilot run` and `pilot status`: a frozen pilot, conducted and watched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from repotrial import api
from repotrial._core.display import mark_cap
from repotrial._core.errors import ExitCode
from repotrial.cli._machine import CacheOption, CustodyOption, build_settings
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, ScreenPart, print_json, print_json_line, print_table
from repotrial.cli._progress import tell_neighbors
from repotrial.cli._signals import stop_on_signals
from repotrial.cli._trace import find_key_file

PilotDirectory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", readable=False, help="The pilot's directory (it holds pilot.toml).")
]
_WATCH_SECONDS = 5.0


def run(
    directory: PilotDirectory,
    *,
    stage: Annotated[
        int, typer.Option("--stage", min=1, max=3, help="The last stage to conduct; earlier ones come first.")
    ] = 3,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 1,
    cache: CacheOption = None,
    custody: CustodyOption = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", readable=False, help="The private key that seals."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event, one per line.")
    ] = False,
) -> None:
    """Conduct a frozen pilot: the plan's order, stages with checked entry and exit, live envelopes.

    What was conducted is never conducted again, so the command can be stopped, killed and given again.
    Verdicts of single runs are not shown here. Exit code 1 if a stage may not begin or did not do what it is
    for, 3 if runs could not be conducted.
    """
    screen, stopper = Screen(), api.Stopper()
    view = _View(screen, json=json)
    if not json:
        tell_neighbors(jobs, None, json=json)
    with stop_on_signals(stopper.stop) as asked:
        for event in api.run_pilot(
            directory,
            build_settings(cache, custody=custody),
            key_file=find_key_file(key_file),
            stopper=stopper,
            jobs=jobs,
            until=stage,
            on_install=lambda name: Screen(to_stderr=True).line(f"installing {name} …"),
        ):
            view.show(event)
    if not json:
        if asked.exit_code is not None:
            screen.line("stopped: everything recorded is kept; give the same command again to go on")
        screen.line((f"next: repotrial pilot status {directory}", "dim"))
    code = asked.exit_code or view.exit_code
    if code:
        raise typer.Exit(code)


class _View:
    """A line for each run that is in, a table for each entry and exit."""

    def __init__(self, screen: Screen, *, json: bool) -> None:
        self._screen = screen
        self._json = json
        self._names: dict[str, str] = {}
        self._count = 0
        self.exit_code = ExitCode.DONE

    def show(self, event: object) -> None:
        if isinstance(event, api.StageChecked) and not event.is_met:
            self.exit_code = max(self.exit_code, ExitCode.DOES_NOT_HOLD)
        if isinstance(event, api.RunNotConducted) and event.fault is not None:
            self.exit_code = ExitCode.MACHINE_CANNOT
        if isinstance(event, api.RunEnded) and event.fault is not None and not event.is_stopped:
            self.exit_code = ExitCode.MACHINE_CANNOT
        if self._json:
            print_json_line(event)
            return
        self._show(event)

    def _show(self, event: object) -> None:
        match event:
            case api.StageChecked():
                show_criteria(self._screen, event)
            case api.PilotNotice(kind=kind, message=message):
                self._screen.line((f"{kind}: ", "bold yellow"), message)
            case api.RunStarted(run_id=run_id, contract=contract, agent=agent, replicate=replicate):
                self._names[run_id] = f"{contract}  {agent} #{replicate}"
            case api.RunEnded(run_id=run_id, fault=None):
                self._count += 1
                self._screen.line(f"  in ({self._count}): {self._names.get(run_id, run_id)}")
            case api.RunEnded(run_id=run_id, fault=fault) | api.RunNotConducted(run_id=run_id, fault=fault):
                if fault is not None:
                    self._screen.line(("  not conducted: ", "bold yellow"), f"{run_id}: {fault}")
            case _:
                pass


def show_criteria(screen: Screen, checked: api.StageChecked) -> None:
    """A table: met or not, with the evidence."""
    rows: list[list[ScreenPart]] = [
        [
            f"stage {item.stage} {item.when}",
            mark_cap(item.name),
            ("met", "green") if item.is_met else ("not met", "bold red"),
            item.evidence,
        ]
        for item in checked.criteria
    ]
    if rows:
        print_table(screen, ("stage", "criterion", "met", "evidence"), rows)


def status(
    directory: PilotDirectory,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every few seconds, until Ctrl-C.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Show how a frozen pilot stands: progress, spend, causes, blinded power; never a rate by arm.

    Of differences there is only an always-valid band, once tasks are complete. Exit code 1 if the record does
    not hold.
    """
    machine = build_settings(None)
    while True:
        found = api.show_pilot(directory, machine)
        if json:
            print_json(found)
        else:
            _show_status(Screen(), found)
        if not watch:
            break
        time.sleep(_WATCH_SECONDS)
    if found.findings:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _show_status(screen: Screen, found: api.PilotStatus) -> None:
    screen.line((f"{found.pilot}, registration {found.registration}: {found.state}", "bold"))
    for finding in found.findings:
        screen.line(("  does not hold: ", "bold red"), finding)
    for item in found.stages:
        extra = f", {item.indeterminate} indeterminate" if item.indeterminate else ""
        screen.line(f"  stage {item.stage}: {item.conducted} of {item.planned} runs are in{extra}")
    for cause, count in found.causes.items():
        screen.line(f"  indeterminate: {count}: {cause}")
    for envelope in found.envelopes:
        screen.line(f"  spent: {envelope.spent} of {envelope.limit} USD, {envelope.held} held")
    screen.line(f"  flakiness: {found.flakiness}")
    power = found.blinded_power
    shown = f"{power:.2f}" if isinstance(power, float) else f"not computable: {power.reason}"
    screen.line(f"  blinded power at the smallest relevant effect: {shown}")
    for band in found.bands:
        inside = f"{band.low:+.3f} to {band.high:+.3f}, always valid at {band.level:g}"
        screen.line(f"  {band.contrast}: {inside}, {band.tasks} tasks")
    notes = {
        "  registration ": found.time_stamp,
        "  the efficacy rule is off: ": found.rule_off,
        "  stopped: ": found.stop,
    }
    for title, words in notes.items():
        if words:
            screen.line((title, "yellow"), words)
    if found.shown_apart:
        screen.line(f"  {found.shown_apart} runs of earlier registrations are shown apart")
    for deviation in found.deviations:
        screen.line(("  deviation: ", "yellow"), deviation)
    show_criteria(screen, found.next)
