"""What was said in a run and done for it, in order: messages, answers, calls with their results, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from repotrial._core.errors import EvidenceError, RepoTrialError
from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    Prompt,
    Response,
    RunPaths,
    ToolInvocation,
    describe_exit,
    iter_events,
    read_said,
)

_MOST_TURN_CHARACTERS: Final = 20_000
_MOST_BODY_BYTES: Final = 32 * 1024**2
"""A body is verified as a whole before its beginning is shown."""
_MOST_MESSAGES: Final = 50
_FIRST_ERROR: Final = 400
_MOST_TURNS: Final = 600
"""On a page that is one file."""
_MOST_PAGE_CHARACTERS: Final = 400_000
_LEAST_CHARACTERS: Final = 300
_SAID_BEFORE: Final = frozenset({"assistant", "model", "tool", "function", "toolResult"})
"""Roles of what an agent sends back of earlier exchanges: on record as answers and results already."""

EVENT_CLASSES: Final[dict[str, tuple[str, ...]]] = {
    "conversation": ("briefing", "prompt", "response", "tool-invocation", "agent-transcript"),
    "files": ("workspace-mutation", "change-taken", "patch-application"),
    "programs": ("program-start", "program-end", "programs-folded", "witness-report", "harness-execution"),
    "checks": ("build-check", "static-check", "acceptance-execution", "draw-revealed"),
    "oversight": (
        "monitor-alert", "intervention", "operator-decision", "stage-transition", "monitor-report",
        "trace-truncated",
    ),
    "course": ("run-opened", "manifest-bound", "phase-changed", "agent-configuration", "termination"),
}  # fmt: skip
"""Which events readers ask for together."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said or done."""

    seq: int
    role: str
    """Who speaks: a role of the provider's, the model, or a tool."""
    kind: str
    """message, answer, refusal, call or program."""
    text: str
    note: str = ""
    wall_us: int | None = None
    """How long it took; None if that is not known."""
    is_failed: bool = False
    left_out: int = 0
    """So many characters are not shown."""


class ShownConversation(msgspec.Struct, frozen=True, kw_only=True):
    """All turns that a page shows."""

    turns: tuple[Turn, ...]
    left_out: int
    """So many more turns are not there."""


def build_conversation(paths: RunPaths, *, verified_count: int) -> ShownConversation:
    """The conversation of a run, each thing once; what cannot be read ends it, and the verdict says why."""
    blobs = BlobStore(paths.blobs)
    turns: list[Turn] = []
    left_out, room = 0, _MOST_PAGE_CHARACTERS
    try:
        for event in islice(iter_events(paths.trace, allow_torn_tail=True), verified_count):
            for turn in build_turns(event, blobs):
                if _is_repetition(event, turn):
                    continue
                if len(turns) >= _MOST_TURNS:
                    left_out += 1
                    continue
                shown = turn.text[: max(_LEAST_CHARACTERS, room)]
                room -= len(shown)
                cut = len(turn.text) - len(shown)
                turns.append(msgspec.structs.replace(turn, text=shown, left_out=turn.left_out + cut))
    except EvidenceError:
        pass  # the status names it: the run is invalid
    return ShownConversation(turns=tuple(turns), left_out=left_out)


def _is_repetition(event: Event, turn: Turn) -> bool:
    match event.payload:
        case Prompt(index=index):
            return index > 0 and turn.role in _SAID_BEFORE
        case ToolInvocation(source=source):
            return source != "gateway"
        case _:
            return False


def build_turns(event: Event, blobs: BlobStore) -> Iterator[Turn]:
    """What was said or done in an event of a conversation; other events have none."""
    match event.payload:
        case Prompt(messages=messages, conversation=name):
            for message in messages[-_MOST_MESSAGES:]:
                yield _build_turn(event.seq, message.role, "message", _read(message.body, blobs), note=name)
        case Response() as answer:
            is_failed = (answer.status or 0) >= _FIRST_ERROR
            note = f"{answer.model}, {answer.conversation}" + (f", HTTP {answer.status}" if is_failed else "")
            kind = "refusal" if is_failed or answer.stop_reason == "refusal" else "answer"
            said = _read(answer.body, blobs)
            turn = _build_turn(event.seq, answer.role, kind, said, note=note, is_failed=kind == "refusal")
            yield msgspec.structs.replace(turn, wall_us=answer.wall_us)
        case ToolInvocation() as call:
            given = " ".join(call.command.argv) if call.command else _read(call.arguments, blobs)
            result = "" if call.result is None else _read(call.result, blobs)
            ended = describe_exit(call.exit)
            # What the sandbox saw is a program that ran; a call is what a model asked for.
            turn = _build_turn(
                event.seq,
                call.tool,
                "program" if call.source == "sandbox" else "call",
                f"{given}\n\n{result}" if result else given,
                note=ended,
                is_failed=ended not in {"exit 0", "exit unknown"},
            )
            yield msgspec.structs.replace(turn, wall_us=call.wall_us)
        case _:
            pass


def _build_turn(seq: int, role: str, kind: str, text: str, *, note: str, is_failed: bool = False) -> Turn:
    shown = text[:_MOST_TURN_CHARACTERS]
    return Turn(
        seq=seq,
        role=role,
        kind=kind,
        text=shown,
        note=note,
        is_failed=is_failed,
        left_out=len(text) - len(shown),
    )


def _read(body: Body, blobs: BlobStore) -> str:
    """What a body says, in words; its own text where the format is not one that we know."""
    said = read_said(body, blobs, keeps_lines=True)
    if said is not None:
        return said
    if body.length_bytes > _MOST_BODY_BYTES:
        return f"({body.length_bytes} bytes, too many to show)"
    try:
        return body.load(blobs).decode("utf-8", "backslashreplace")
    except RepoTrialError as error:
        return f"({error.message})"
