"""Runs of this harness: what the gateway saw, as calls like any other record's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.errors import EvidenceError
from repotrial.retrieval._extract import Extractor, TracedCall
from repotrial.retrieval._merge import MergedTrace, TrialTraces
from repotrial.retrieval._places import build_names
from repotrial.retrieval._tools import load_retrieval_tools
from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    ExitUnknown,
    Manifest,
    NotStarted,
    PhaseChanged,
    ProgramStart,
    Response,
    ResponseUsage,
    RunPaths,
    ToolInvocation,
    iter_events,
    load_manifest,
)
from repotrial.transcripts import ToolOutput

WORKSPACE: Final = "/workspace"
"""Where agents find the repository."""
_SHOWN: Final = frozenset({"file_read", "code_search"})
_MAIN: Final = "main"
_EXECUTED: Final = "execve"
"""The tool under which runs of the first release recorded program starts."""


def name_configuration(manifest: Manifest) -> str:
    """The configuration of a run of ours (R2): agent, version, model, tools.

    An agent without a model is a script, patch or baseline, one for each task: its name alone.
    """
    agent = manifest.agent
    if not isinstance(agent.model, str):
        return agent.name
    version = agent.version if isinstance(agent.version, str) else "unknown"
    name = f"{agent.name}@{version}+{agent.model}"
    if isinstance(agent.tools, Unknown) or not agent.tools:
        return name
    digest = sha256("\0".join(sorted(agent.tools)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}+tools-{digest[:8]}"


class OwnRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory of ours, as far as retrieval is concerned."""

    manifest: Manifest
    traces: TrialTraces
    started_us: int | None
    """When the agent began."""


def load_own_run(directory: Path) -> OwnRun:
    """Read a run's manifest and trace.

    Raises:
        EvidenceError: its manifest cannot be read; a damaged trace gives what stands before the damage.
    """
    paths = RunPaths(directory)
    manifest = load_manifest(paths.manifest)
    reader = _Reader(BlobStore(paths.blobs))
    skipped: dict[str, int] = {}
    try:
        for event in iter_events(paths.trace, allow_torn_tail=True):
            reader.read(event)
    except EvidenceError:
        skipped["unreadable-trace"] = 1
    if reader.lost:
        skipped["body-not-kept"] = reader.lost
    calls = tuple(reader.calls or reader.programs)
    return OwnRun(
        manifest=manifest,
        traces=TrialTraces(
            merged=MergedTrace(
                calls=calls,
                first_at_us=reader.started_us or next((call.at_us for call in calls), None),
                directory=WORKSPACE,
                model=manifest.agent.model if isinstance(manifest.agent.model, str) else None,
                skipped=skipped,
            ),
            has_trajectory=True,
            has_transcript=False,
            source="trajectory" if calls else None,
            files=("trace.jsonl",),
            skipped=skipped,
        ),
        started_us=reader.started_us,
    )


def list_files_read(directory: Path) -> frozenset[str] | NotComputable:
    """Files of the repository whose content a run of ours was shown, as far as its calls tell."""
    own = load_own_run(directory).traces.merged
    if not own.calls:
        return NotComputable(reason="no call is on record")
    names = build_names(roots=(WORKSPACE, own.directory), truth=())
    extractor = Extractor(load_retrieval_tools(), names, own.directory)
    found = (retrieved for call in own.calls for retrieved in extractor.extract(call))
    return frozenset(
        name
        for retrieved in found
        if retrieved.category in _SHOWN
        for place in retrieved.places
        if (name := names.name(place))
    )


class _Reader:
    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._spent: int | None = 0
        self._has_usage = False
        self._aside: list[bytes] = []
        self.calls: list[TracedCall] = []
        self.programs: list[TracedCall] = []
        self.started_us: int | None = None
        self.lost = 0

    def read(self, event: Event) -> None:
        match event.payload:
            case PhaseChanged(phase="act") if self.started_us is None:
                self.started_us = event.t
            case Response(conversation=conversation, usage=usage, body=body):
                self._add(usage)
                if conversation != _MAIN:
                    self._aside.append(self._load(body))
            case ToolInvocation(source="gateway" | "transcript") as call:
                self.calls.append(self._build(call))
            case ToolInvocation(source="sandbox", tool=tool, command=command) as call if tool == _EXECUTED:
                if command is not None:
                    self._add_program(command.argv, command.cwd, call.started_at_us)
            case ProgramStart(phase="act", argv=argv, cwd=cwd, started_at_us=at_us):
                self._add_program(argv, cwd, at_us)
            case _:
                return

    def _add_program(self, argv: tuple[str, ...], cwd: str, at_us: int) -> None:
        self.programs.append(
            TracedCall(
                name="shell",
                arguments={"command": shlex.join(argv), "cwd": cwd},
                call_id=None,
                outputs=(),
                is_error=False,
                is_subagent=False,
                timestamp=_format_instant(at_us),
                at_us=at_us,
                tokens=self._spent if self._has_usage else None,
            )
        )

    def _add(self, usage: ResponseUsage) -> None:
        if usage.request_input_tokens is None or self._spent is None:
            self._spent = None  # from here on the sum is not known
            return
        self._has_usage = True
        self._spent += usage.request_input_tokens + (usage.output_tokens or 0)

    def _build(self, call: ToolInvocation) -> TracedCall:
        raw = self._load(call.arguments).decode("utf-8", "replace")
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            value = None
        needle = call.call_id.encode() if call.call_id else None
        return TracedCall(
            name=call.tool,
            arguments=value if isinstance(value, dict) else raw,
            call_id=call.call_id,
            outputs=tuple(self._iter_outputs(call)),
            is_error=_has_failed(call),
            is_subagent=needle is not None and any(needle in body for body in self._aside),
            timestamp=_format_instant(call.started_at_us),
            at_us=call.started_at_us,
            tokens=self._spent if self._has_usage else None,
        )

    def _iter_outputs(self, call: ToolInvocation) -> Iterator[str]:
        if call.result is not None:
            yield ToolOutput(raw=self._load(call.result)).text
        elif call.stdout is not None:
            yield self._load(call.stdout.prefix).decode("utf-8", "replace")

    def _load(self, body: Body) -> bytes:
        try:
            return body.load(self._blobs)
        except EvidenceError:
            self.lost += 1
            return b""


def _format_instant(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()


def _has_failed(call: ToolInvocation) -> bool:
    match call.exit:
        case NotStarted():
            return True
        case ExitUnknown(reason=reason):
            return "fail" in reason
        case _:
            return False
