"""A watch over a run without its sandbox: supervisor, breakers, budget and trace are real."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fakes.controls import FakeControls
from fakes.exchanges import FakeUpstream
from repotrial._core.clock import SystemClock
from repotrial.contract import Limits, Network
from repotrial.cost import BudgetCaps, Parent, RunBudget, Tariff
from repotrial.gateway import GatewayLoop
from repotrial.policy import BreakerState, build_settings, parse_thresholds, read_thresholds
from repotrial.run import build_body_reader
from repotrial.run._watch._breakers import BreakerExecutor, EndingSwitch, TraceObserver
from repotrial.run._watch._dialogue import Dialogue
from repotrial.run._watch._inbox import Inbox
from repotrial.run._watch._inspection import AnswerInspector
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._supervisor import RunSupervisor
from repotrial.trace import Event, PhaseChanged, RunPaths, TraceWriter, iter_events
from repotrial.workspace import CopyWorkspace
from support.gateways import KEY
from support.traces import open_writer
from support.workspaces import make_base, scratch

__all__ = ["Watched", "open_watch", "serve_watch"]


class Watched(NamedTuple):
    """A run under watch."""

    writer: TraceWriter
    budget: RunBudget
    dialogue: Dialogue
    switch: EndingSwitch
    breakers: BreakerExecutor
    controls: FakeControls
    supervisor: RunSupervisor
    directory: Path

    def list_events(self) -> list[Event]:
        self.writer.flush()
        return list(iter_events(RunPaths(self.directory).trace))

    def list_of(self, kind: type) -> list[Event]:
        return [event for event in self.list_events() if isinstance(event.payload, kind)]


@contextlib.contextmanager
def open_watch(
    *,
    caps: BudgetCaps | None = None,
    tariff: Tariff | None = None,
    parent: Parent | None = None,
    replaced: tuple[str, str] = ("", ""),
    patience_seconds: float = 900,
    network: Network = "none",
) -> Iterator[Watched]:
    """Prices are abstract units, unless a tariff says otherwise; `replaced` changes the thresholds' text."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(scratch())
        base = stack.enter_context(make_base(place, {"a.txt": "a"}))
        workspace = stack.enter_context(CopyWorkspace(base, place / "work"))
        directory = place / "runs" / "one"
        writer = stack.enter_context(open_writer(directory))
        writer.append(PhaseChanged(phase="act", previous="brief"), actor="harness")
        thresholds = parse_thresholds(read_thresholds().decode().replace(*replaced).encode())
        state = BreakerState(
            build_settings(Limits(), thresholds), read=build_body_reader(RunPaths(directory).blobs)
        )
        switch, controls = EndingSwitch(lambda: None), FakeControls()
        breakers = BreakerExecutor(
            writer,
            observer=TraceObserver(writer, state),
            switch=switch,
            controls=controls,
            inbox=Inbox(directory, patience_seconds=patience_seconds),
        )
        stack.callback(switch.close)
        dialogue = Dialogue(writer, SystemClock())
        budget = RunBudget(caps or BudgetCaps(), parent=parent)
        stack.enter_context(breakers)
        supervisor = stack.enter_context(
            RunSupervisor(
                writer=writer,
                dialogue=dialogue,
                mutations=MutationLog(writer, workspace),
                budget=budget,
                tariff=tariff or Tariff(book=None),
                breakers=breakers,
                inspector=AnswerInspector(writer, None, network=network),
            )
        )
        stack.callback(breakers.stop_asking)
        yield Watched(writer, budget, dialogue, switch, breakers, controls, supervisor, directory)


@contextlib.contextmanager
def serve_watch(watched: Watched, upstream: FakeUpstream, loop: GatewayLoop) -> Iterator[int]:
    """A gateway in front of it; its port. Nothing may go wrong in the harness itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with loop.serve(listener, key=KEY, supervisor=watched.supervisor, upstream=upstream) as served:
            try:
                yield port
            finally:
                watched.breakers.stop_asking()
                watched.supervisor.stop()
        assert served.problems == ()
