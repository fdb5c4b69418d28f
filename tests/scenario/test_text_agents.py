"""An agent without tools, end to end: its edits stand in the text, and the stages know it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from repotrial import api
from repotrial.trace import AgentTranscript, Enforced, Response, StageTransition, WorkspaceMutation
from support.model_agents import TINY, ModelRun, finish, try_script
from support.trials import Court, open_court

BLOCKS = TINY.with_name("blocks.toml")


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def _read_notes(run: ModelRun) -> list[str]:
    (printed,) = (event.payload for event in run.list_of(AgentTranscript))
    assert isinstance(printed, AgentTranscript)
    return [json.loads(line)["note"] for line in run.read(printed.body).splitlines()]


def test_edits_in_the_text_of_an_answer_open_the_workspace_before_the_agent_has_them(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        "[[steps]]\nkind = 'read'\npath = 'answer.sh'\n",
        "[[steps]]\nkind = 'write'\npath = 'answer.sh'\ncontent = \"echo 42\\n\"\n",
        finish("It says 42."),
    ]
    run = try_script(court, capsys, steps, agent=f"agent:{BLOCKS}")
    assert (run.status, run.termination.category) == ("success", "agent-exit")
    assert _read_notes(run) == ["could not write: Read-only file system", "It says 42."]
    assert len(run.list_of(Response)) == 3  # shows the file, writes it, ends
    moved = [
        (event.seq, event.payload)
        for event in run.list_of(StageTransition)
        if isinstance(event.payload, StageTransition) and isinstance(event.payload.status, Enforced)
    ]
    ((place, transition),) = moved
    assert (transition.before, transition.after) == ("read", "write")
    assert [(signal.name, signal.value) for signal in transition.signals] == [("edit_blocks", 1)]
    assert transition.evidence == (run.list_of(Response)[1].seq,)
    assert place < run.list_of(WorkspaceMutation)[0].seq
    assert api.recompute_run(run.directory).holds
    assert api.verify_run(run.directory, trusted_keys=None).holds
