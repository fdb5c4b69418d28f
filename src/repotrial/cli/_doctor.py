"""`repotrial doctor`: what this machine can do, and how to get more."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import ExitCode
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, print_json


def doctor(
    *,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Install bubblewrap through the package manager; without root, print the command."
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Find out, by trying, which isolation levels this machine reaches; say how to get the others.

    Nothing is installed or fetched unless --fix is given. Exit codes: 0 some level works, 1 --fix left
    something undone, 3 no level works.
    """
    done = api.fix_machine(os.environ) if fix else None
    report = api.run_doctor() if done is None else done.report
    if json:
        print_json(done or report)
    else:
        for action in () if done is None else done.actions:
            style = "green" if action.outcome in {"present", "installed"} else "yellow"
            parts = [
                f" by `{action.command}`" if action.command else "",
                f": {action.said}" if action.said else "",
            ]
            Screen().line((f"{action.what} ", "bold"), (action.outcome, style), *parts)
        _print_report(report)
    if report.best is None:
        raise typer.Exit(ExitCode.MACHINE_CANNOT)
    if done is not None and not done.is_done:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _print_report(report: api.DoctorReport) -> None:
    screen = Screen()
    best = "none" if report.best is None else report.best.value
    screen.line(("best isolation level here: ", "bold"), (best, "bold green" if report.best else "bold red"))
    for level in report.levels:
        if (found := level.capabilities) is not None:
            screen.line(
                (f"  {level.level.value:<4}", "bold"),
                ("works  ", "green"),
                f"network {found.network}, {'overlay' if found.has_overlay else 'copied'} workspace, "
                f"system calls {found.syscall_audit}, memory {found.memory_limit}, cpu {found.cpu_meter}, "
                f"freezer {found.freezer}{', live stages' if found.has_stages else ''}",
            )
            screen.line(
                f"      runs side by side: shared trees {found.shared_tree}, "
                f"processor share {found.cpu_share}, account {found.account}, "
                f"memory {found.memory_limit}, disk {found.disk_limit}"
            )
            if level.caution:
                screen.line((f"      mind: {level.caution}", "yellow"))
            continue
        screen.line((f"  {level.level.value:<4}", "bold"), ("missing  ", "yellow"), level.reason)
        screen.line((f"      fix: {level.remedy}", "dim"))
    for improvement in report.improvements:
        screen.line(("  could be better: ", "yellow"), f"{improvement.what}: {improvement.found}")
        screen.line((f"      fix: {improvement.remedy}", "dim"))
    screen.line(f"bubblewrap {report.bubblewrap_version or 'not found'}")
    if report.is_root and report.sandbox_uid is not None:
        screen.line(f"running as root: programs in sandboxes run as uid {report.sandbox_uid}")
