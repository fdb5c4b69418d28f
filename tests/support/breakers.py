"""Events of a run, made by hand, for the breakers."""

from __future__ import annotations

import hashlib
import json
from typing import Literal, cast

from repotrial._core.digest import digest_bytes
from repotrial._core.words import AlertSeverity, LifecyclePhase
from repotrial.contract import Limits
from repotrial.policy import POLICY, BreakerState, Decision, build_settings, decide
from repotrial.trace import (
    BlobRef,
    Body,
    Command,
    Event,
    ExitStatus,
    ExitUnknown,
    FileAdded,
    FileDeleted,
    FileEntry,
    FileModified,
    Intervention,
    InterventionAction,
    MonitorAlert,
    Observed,
    OnAlert,
    Pause,
    PhaseChanged,
    Quarantine,
    Response,
    ResponseUsage,
    RollBack,
    Segment,
    Signal,
    SuspendWrites,
    Terminate,
    TextBody,
    Throttle,
    ToolInvocation,
    UnrecordedContent,
    WorkspaceMutation,
)
from repotrial.trace._body import BlobBody, OmittedBody
from repotrial.trace._event import Actor, UnknownPayload
from repotrial.trace._payloads import Payload
from support.traces import build_start

__all__ = ["Record", "build_body"]

_WIRE = ExitUnknown(reason="the wire does not carry exit statuses")
_HASH = "0" * 64
_KEPT = UnrecordedContent(reason="a test")


def build_body(text: str) -> TextBody:
    """A short body."""
    return TextBody(digest=digest_bytes(text.encode()), length_bytes=len(text.encode()), text=text)


def _build_entry(content: str) -> FileEntry:
    return FileEntry(mode=0o644, digest=digest_bytes(content.encode()), size_bytes=len(content))


class Record:
    """A trace that grows by one event at a time."""

    def __init__(self, phase: LifecyclePhase = "act") -> None:
        self.events: list[Event] = []
        self._now_us = 1_000_000_000
        self._files: dict[str, str] = {}
        self._bodies: dict[str, str] = {}
        self._trees: list[str] = []
        self.add(PhaseChanged(phase=phase, previous=None), actor="harness")

    def add(self, payload: Payload, *, actor: Actor = "agent", after_us: int = 1_000_000) -> int:
        """Append an event; answers its place."""
        self._now_us += after_us
        seq = len(self.events)
        self.events.append(
            Event(
                actor=actor,
                hash=_HASH,
                payload=payload,
                seq=seq,
                t=self._now_us,
                type=payload.event_type,
            )
        )
        return seq

    @property
    def now_us(self) -> int:
        """The time of the last event."""
        return self._now_us

    def shell(
        self,
        command: str,
        *,
        result: str = "",
        exit_status: ExitStatus = _WIRE,
        wall_us: int = 1000,
        after_us: int = 1_000_000,
        result_bytes: int | None = None,
        since_us: int | None = None,
        **others: str,
    ) -> int:
        """A call of a shell tool, as the wire shows it; `since_us`: under way since then."""
        if since_us is not None:
            wall_us = self._now_us - since_us
        answer: Body = build_body(result)
        if result_bytes is not None:
            answer = OmittedBody(digest=digest_bytes(b""), length_bytes=result_bytes)
        arguments = build_body(json.dumps({"command": command, **others}))
        return self._call(
            arguments, answer, exit_status, wall_us=wall_us, after_us=after_us, since_us=since_us
        )

    def blob_shell(self, command: str) -> int:
        """The same with arguments too long for a line."""
        text = json.dumps({"command": command})
        digest = digest_bytes(text.encode())
        self._bodies[digest] = text
        blob = BlobRef(digest=digest, size_bytes=len(text))
        body = BlobBody(digest=digest, length_bytes=len(text), blob=blob)
        return self._call(body, build_body(""), _WIRE, wall_us=1000, after_us=1_000_000)

    def read(self, body: Body) -> str | None:
        """Bodies that are kept elsewhere."""
        return body.text if isinstance(body, TextBody) else self._bodies.get(body.digest)

    def call(self, tool: str, arguments: dict[str, object]) -> int:
        """A call of any tool."""
        body = build_body(json.dumps(arguments))
        return self._call(body, build_body(""), _WIRE, wall_us=1000, after_us=1_000_000, tool=tool)

    def _call(
        self,
        arguments: Body,
        result: Body,
        exit_status: ExitStatus,
        *,
        wall_us: int,
        after_us: int,
        tool: str = "Bash",
        since_us: int | None = None,
    ) -> int:
        call = ToolInvocation(
            tool=tool,
            source="gateway",
            arguments=arguments,
            exit=exit_status,
            started_at_us=self._now_us if since_us is None else since_us,
            wall_us=wall_us,
            result=result,
        )
        return self.add(call, after_us=after_us)

    def program(self, *argv: str) -> int:
        """A program that the witness saw start."""
        return self.add(build_start(*argv))

    def program_of_the_first_release(self, *argv: str) -> int:
        """A program start as runs of the first release have it."""
        return self.add(
            ToolInvocation(
                tool="execve",
                source="sandbox",
                arguments=build_body("{}"),
                command=Command(argv=argv, cwd="."),
                exit=ExitUnknown(reason="seen at its start"),
                started_at_us=self._now_us,
                wall_us=0,
            )
        )

    def program_end(self, name: str, *, wall_us: int) -> int:
        """The agent's own program, when it is over."""
        return self.add(
            ToolInvocation(
                tool=name,
                source="sandbox",
                arguments=build_body("[]"),
                command=Command(argv=(name,), cwd="."),
                exit=_WIRE,
                started_at_us=self._now_us,
                wall_us=wall_us,
            )
        )

    def change(self, path: str, content: str) -> int:
        """A file gets other content."""
        before = self._files.get(path)
        self._files[path] = content
        after = _build_entry(content)
        change = (
            FileAdded(path=path, after=after, content=_KEPT)
            if before is None
            else FileModified(path=path, before=_build_entry(before), after=after, content=_KEPT)
        )
        self._trees.append(hashlib.sha256(json.dumps(self._files, sort_keys=True).encode()).hexdigest())
        mutation = WorkspaceMutation(cause=Observed(since=0), changes=(change,))
        return self.add(mutation, actor="harness")

    def tree_digest(self, index: int) -> str:
        """The tree after the change of that number."""
        return self._trees[index]

    def delete(self, *paths: str) -> int:
        """Files are gone."""
        changes = tuple(FileDeleted(path=path, before=_build_entry("x"), content=_KEPT) for path in paths)
        return self.add(WorkspaceMutation(cause=Observed(since=0), changes=changes), actor="harness")

    def response(
        self,
        *,
        tokens: int,
        after_us: int = 1_000_000,
        cost_usd: str | None = None,
        tool_calls: int | None = None,
    ) -> int:
        """An answer of a model."""
        answer = Response(
            prompt=None,
            model="m",
            role="assistant",
            conversation="main",
            index=0,
            body=build_body(""),
            usage=ResponseUsage(input_uncached_tokens=tokens - 1, output_tokens=1),
            cost_usd=cost_usd,
            tool_calls=tool_calls,
        )
        return self.add(answer, after_us=after_us)

    def alert(self, monitor: str, rule: str, severity: str, *signals: Signal) -> int:
        """An alert of some monitor."""
        alert = MonitorAlert(
            monitor=monitor, rule=rule, severity=cast("AlertSeverity", severity), phase="act", signals=signals
        )
        return self.add(alert, actor="monitor", after_us=1)

    def policy(self, rule: str, severity: str, form: str) -> int:
        """A finding in text."""
        segment = Segment(
            format=cast("Literal['natural-language', 'code', 'command']", form),
            body=build_body("rm -rf ~"),
            event=0,
        )
        alert = MonitorAlert(
            monitor=POLICY, rule=rule, severity=cast("AlertSeverity", severity), phase="act", segment=segment
        )
        return self.add(alert, actor="monitor", after_us=1)

    def conduct(self, limits: Limits) -> list[Event]:
        """The same events in a run whose harness does what the rules decide, until one ends it."""
        live = Record()
        live.events.clear()
        live._now_us = 0
        state = BreakerState(build_settings(limits), read=self.read)
        for event in self.events:
            assert not isinstance(event.payload, UnknownPayload)
            live.add(event.payload, actor=event.actor, after_us=event.t - live._now_us)
            for decision in decide(state, live.events[-1]):
                live._act(decision)
                if decision.action == "terminate":
                    return live.events
        return live.events

    def _act(self, decision: Decision) -> None:
        alert = decision.alert
        if alert is None:
            alert = self.add(decision.build_alert(), actor="monitor", after_us=1)
        if decision.action is not None:
            done = Intervention(action=_build_action(decision), basis=OnAlert(alert=alert), effective=True)
            self.add(done, actor="harness", after_us=1)


def _build_action(decision: Decision) -> InterventionAction:
    match decision.action:
        case "throttle":
            return Throttle(wait_us=decision.wait_us or 0)
        case "pause":
            return Pause()
        case "suspend-writes":
            return SuspendWrites()
        case "quarantine":
            return Quarantine()
        case "roll-back":
            return RollBack(tree_digest="sha256:" + _HASH)
        case "terminate" | None:
            return Terminate()
