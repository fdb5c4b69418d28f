"""`report serve`: the viewer, and what other rooms do for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import find_obstacle
from repotrial.api._machine import MachineSettings
from repotrial.api._pilot_page import load_pilot_view
from repotrial.api._pilot_review import list_review, show_review, write_label
from repotrial.api._pilot_run import show_pilot
from repotrial.api._recompute import decide_run
from repotrial.report import build_document, render_document
from repotrial.viewer import ViewerGuard, ViewerPorts, ViewerSettings, serve_directory

VIEWER_DIRECTORY = ErrorCode(
    "viewer-directory",
    UsageError,
    "What the viewer was to serve is no directory.",
    hint="name a directory of runs or of pilots, or one that holds such directories",
)


def serve_runs(
    settings: ViewerSettings,
    machine: MachineSettings,
    *,
    on_ready: Callable[[ViewerGuard], None],
    wait: Callable[[], object],
) -> None:
    """Serve the runs and pilots below a directory, until `wait` returns.

    Raises:
        VIEWER_DIRECTORY: there is no such directory.
        VIEWER_ADDRESS: there is no listening at that address.
        VIEWER_WILDCARD: the address is every address.
    """
    if obstacle := find_obstacle(settings.root):
        raise VIEWER_DIRECTORY.error(f"{settings.root}: expected a directory, found {obstacle}")
    ports = ViewerPorts(
        decide=_decide,
        load_status=lambda pilot: show_pilot(pilot, machine),
        build_results=_build_results,
        list_review=lambda pilot, reviewer: list_review(pilot, reviewer=reviewer),
        show_review=lambda pilot, case, is_seen: show_review(pilot, case, with_verdict=is_seen),
        write_label=write_label,
    )
    serve_directory(settings, ports, on_ready=on_ready, wait=wait)


def _decide(run: Path, is_allowed: bool, operator: str, text: str) -> object:  # noqa: FBT001 - as the port has it
    return decide_run(run, is_allowed=is_allowed, operator=operator, reason="reviewed", text=text)


def _build_results(pilot: Path) -> bytes:
    return render_document(build_document(pilots=[load_pilot_view(pilot)]), "html")
