"""What the server knows: the directory that it serves, its list, and who may be asked for more."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from repotrial.analysis import ReviewCase
from repotrial.conduct import GivenLabel, PilotStatus, ReviewQueue
from repotrial.viewer._catalog import RunCatalog
from repotrial.viewer._guard import ViewerGuard
from repotrial.viewer._places import FoundPilot, Surroundings, look_around
from repotrial.viewer._trace_index import TraceIndex

_MOST_INDEXES: Final = 32
_LEAST_PAUSE_SECONDS: Final = 0.5
_MOST_PAUSE_SECONDS: Final = 10.0
_SHARE: Final = 10
"""So many times as long as a look around takes is the pause after it."""


class ViewerPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What the rooms above do for the viewer, which itself only reads."""

    decide: Callable[[Path, bool, str, str], object]
    """A person's answer to a run that waits: run, whether it goes on, who, why."""
    load_status: Callable[[Path], PilotStatus]
    """How a pilot stands, without rates."""
    build_results: Callable[[Path], bytes]
    """The page of a pilot that is over."""
    list_review: Callable[[Path, str | None], ReviewQueue]
    """Cases of a pilot, blinded: those that a person has still to label, or all."""
    show_review: Callable[[Path, str, bool], ReviewCase]
    """One of them; whether with the verdict of the checks."""
    write_label: Callable[[Path, GivenLabel], object]
    """Add a label to the pilot's."""


class ViewerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    root: Path
    """Below it are runs and pilots."""
    cache: Path
    """Where disposable indexes are kept."""
    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = 0
    """0 takes a free one."""
    operator: str = ""
    """Who is likely to decide; forms suggest it."""


class ViewerState:
    """One served directory."""

    def __init__(self, settings: ViewerSettings, guard: ViewerGuard, ports: ViewerPorts) -> None:
        self.root = settings.root
        self.guard = guard
        self.ports = ports
        self.operator = settings.operator
        self._cache = settings.cache / "viewer"
        self.catalog = RunCatalog(self.root, self._cache)
        self.found = Surroundings(runs=(), pilots=())
        self.trouble = ""
        """Why the list may be old; every page says it."""
        self._indexes = OrderedDict[Path, TraceIndex]()
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()
        self._is_asked = threading.Event()
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """Look around once, and read what is new."""
        self.found = look_around(self.root)
        self.catalog.update(self.found, self._is_stopped.is_set)

    def start(self) -> None:
        """Look around again and again, until `stop`."""
        self._thread = threading.Thread(target=self._watch, name="viewer", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_stopped.is_set():
            began = time.monotonic()
            try:
                self.refresh()
                self.trouble = ""
            except (OSError, sqlite3.Error) as error:
                self.trouble = f"the list is not up to date: {error}"
            pause = (time.monotonic() - began) * _SHARE
            self._is_asked.wait(min(max(pause, _LEAST_PAUSE_SECONDS), _MOST_PAUSE_SECONDS))
            self._is_asked.clear()

    def look_now(self) -> None:
        """Do not wait for the next look: something was just done."""
        self._is_asked.set()

    def stop(self) -> None:
        """End the looking around, and let go of the list."""
        self._is_stopped.set()
        self._is_asked.set()
        if self._thread is not None:
            self._thread.join()
        self.catalog.close()

    def open_index(self, run: Path) -> TraceIndex:
        """The index of a trace; those of the last few runs are kept."""
        with self._lock:
            found = self._indexes.pop(run, None) or TraceIndex(run, self._cache)
            self._indexes[run] = found
            while len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)
            return found

    def find_pilot(self, key: str) -> FoundPilot | None:
        """A pilot by its name in addresses."""
        return next((pilot for pilot in self.found.pilots if pilot.key == key), None)

    def count_waiting(self) -> int:
        """Runs that wait for a person."""
        return sum(run.state == "waiting" for run in self.found.runs)
