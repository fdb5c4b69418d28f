"""Agents that ask a model, on a small contract, with a canned model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    Intervention,
    InterventionAction,
    MonitorAlert,
    RunPaths,
    Termination,
    ToolInvocation,
    iter_events,
)
from support.trials import Court

__all__ = ["TINY", "ModelRun", "finish", "shell", "try_script", "try_upstream", "write_script"]

TINY = Path(__file__).parents[1] / "data" / "agents" / "tiny.toml"


def shell(command: str) -> str:
    """A step that runs a command."""
    return f"[[steps]]\nkind = 'shell'\ncommand = {json.dumps(command)}\n"


def finish(text: str = "Done.") -> str:
    """A step that says it is done."""
    return f"[[steps]]\nkind = 'finish'\ntext = {json.dumps(text)}\n"


def write_script(court: Court, steps: Sequence[str], *, name: str = "script.toml") -> Path:
    return court.write(name, 'schema = "repotrial/script@1"\n' + "\n".join(steps))


class ModelRun:
    """What came of one run."""

    def __init__(self, directory: Path, status: str) -> None:
        self.directory = directory
        self.status = status
        """As the judges call it."""
        self.events: list[Event] = list(iter_events(RunPaths(directory).trace))

    @property
    def termination(self) -> Termination:
        (found,) = (e.payload for e in self.events if isinstance(e.payload, Termination))
        return found

    def list_of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event.payload, kind)]

    def list_alerts(self, monitor: str) -> list[MonitorAlert]:
        """What one monitor had to say."""
        alerts = [event.payload for event in self.events if isinstance(event.payload, MonitorAlert)]
        return [alert for alert in alerts if alert.monitor == monitor]

    def list_actions(self) -> list[InterventionAction]:
        """What the breakers had done."""
        return [event.payload.action for event in self.events if isinstance(event.payload, Intervention)]

    def list_calls(self) -> list[tuple[str, str]]:
        """Tools that the gateway saw being used, with their arguments."""
        uses = [event.payload for event in self.events if isinstance(event.payload, ToolInvocation)]
        return [(use.tool, self.read(use.arguments)) for use in uses if use.source == "gateway"]

    def read(self, body: Body) -> str:
        """The text of a body that the trace has."""
        return body.load(BlobStore(RunPaths(self.directory).blobs)).decode("utf-8", "replace")


def try_script(
    court: Court,
    capsys: pytest.CaptureFixture[str],
    steps: Sequence[str],
    *words: str | Path,
    agent: str = f"agent:{TINY}",
    contract: Path | None = None,
) -> ModelRun:
    """One run of an agent with a canned model that takes these steps."""
    upstream = f"script:{write_script(court, steps)}"
    return try_upstream(court, capsys, upstream, *words, agent=agent, contract=contract)


def try_upstream(
    court: Court,
    capsys: pytest.CaptureFixture[str],
    upstream: str,
    *words: str | Path,
    agent: str = f"agent:{TINY}",
    contract: Path | None = None,
    code: int = 0,
) -> ModelRun:
    """One run of an agent with whoever answers for its model; `code` is the command's exit code."""
    status, told = court.start_json(
        capsys,
        contract or court.write_contract(),
        *("--agent", agent, "--upstream", upstream, "--skip-upstream-check"),
        *words,
    )
    assert status == code, told
    (scored,) = (event["entry"] for event in told if event["event"] == "scored")
    return ModelRun(Path(scored["directory"]), scored["status"])
