"""`repotrial doctor`: what this machine can do, and how to get more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from repotrial._core.errors import ExitCode
from repotrial.cli._options import JsonFlag

if TYPE_CHECKING:
    from repotrial.api import Capabilities, DoctorReport

__all__ = ["doctor"]


def doctor(*, json: JsonFlag = False) -> None:
    """Find out, by trying, which isolation levels this machine reaches; say how to get the others."""
    from repotrial import api
    from repotrial.cli._output import print_json

    report = api.run_doctor()
    if json:
        print_json(report)
    else:
        _print_report(report)
    if report.best is None:
        raise typer.Exit(ExitCode.MACHINE_CANNOT)


def _print_report(report: DoctorReport) -> None:
    from repotrial.cli._output import Screen

    screen = Screen()
    best = "none" if report.best is None else report.best.value
    screen.line(("best isolation level here: ", "bold"), (best, "bold green" if report.best else "bold red"))
    for level in report.levels:
        if level.capabilities is not None:
            screen.line(
                (f"  {level.level.value:<4}", "bold"), ("works  ", "green"), _describe(level.capabilities)
            )
            continue
        screen.line((f"  {level.level.value:<4}", "bold"), ("missing  ", "yellow"), level.reason)
        screen.line((f"      fix: {level.remedy}", "dim"))
    for improvement in report.improvements:
        screen.line(("  could be better: ", "yellow"), f"{improvement.what}: {improvement.found}")
        screen.line((f"      fix: {improvement.remedy}", "dim"))
    screen.line(f"bubblewrap {report.bubblewrap_version or 'not found'}, Landlock ABI {report.landlock_abi}")
    if report.is_root and report.sandbox_uid is not None:
        screen.line(f"running as root: programs in sandboxes run as uid {report.sandbox_uid}")


def _describe(found: Capabilities) -> str:
    return (
        f"network {found.network}, {'overlay' if found.has_overlay else 'copied'} workspace, "
        f"system calls {found.syscall_audit}, memory {found.memory_limit}, cpu {found.cpu_meter}, "
        f"freezer {found.freezer}{', live stages' if found.has_stages else ''}"
    )
