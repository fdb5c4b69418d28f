"""This machine's pool: so many runs at a time; the work itself happens in sandboxes."""

from __future__ import annotations

import queue
from collections.abc import Generator

from repotrial.fleet._conductor import conduct_in_threads
from repotrial.fleet._crew import conduct_in_crew, find_crew_size
from repotrial.fleet._descriptors import allow_open_files
from repotrial.fleet._events import FleetEvent, RunEnded, RunSkipped, RunUndone
from repotrial.fleet._plan import FleetPlan
from repotrial.fleet._settings import FleetSettings
from repotrial.run import remove_unfinished

__all__ = ["conduct_fleet"]


def conduct_fleet(plan: FleetPlan, settings: FleetSettings) -> Generator[FleetEvent, None, None]:
    """Conduct what is missing, and tell what happens as it happens.

    Stopping with the settings' stopper lets it come to its end: what runs is sealed as stopped, what has not
    begun is told as undone. The generator may also be closed at any time, to the same effect but without a
    word. Nothing that was recorded is lost either way.

    Raises:
        OpenFilesError: this user may not open as many files as so many runs at a time need.
    """
    for run in plan.runs:
        if run.conducted is not None:
            yield RunSkipped(run_id=run.spec.run_id, directory=str(run.conducted))
    remove_unfinished(settings.runs)
    missing = plan.missing
    allow_open_files(min(settings.jobs, len(missing)))
    events: queue.SimpleQueue[FleetEvent] = queue.SimpleQueue()
    size = find_crew_size(missing, settings)
    with (
        conduct_in_crew(missing, settings, events.put, size=size)
        if size > 1
        else conduct_in_threads(missing, settings, events.put)
    ):
        left = len(missing)
        try:
            while left:
                event = events.get()
                left -= isinstance(event, RunEnded | RunUndone)
                yield event
        finally:
            if left:
                settings.stopper.stop()  # leaving early must not wait for hours of work
