"""Every format gives the same story: two calls, the second fails; two answers of 100 and 150 tokens."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

from repotrial.trace import ResponseUsage
from repotrial.transcripts import (
    IMPORTERS,
    ImportedTranscript,
    ToolOutput,
    import_transcript,
    load_transcript,
)
from repotrial.transcripts._lines import ImportLimits
from repotrial.transcripts._values import parse_moment
from support.errors import raises_code

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "transcripts"

CODE = "def open_valve():\n    return \u2028 False\n"  # a reader that cuts lines there loses the entry
CHECK = {"command": "make check"}
READ = {"path": "pump.py"}
CAT = {"command": "cat pump.py"}


class Sample(msgspec.Struct, frozen=True):
    """What a sample holds, counted by hand."""

    format: str
    names: tuple[str, ...]
    usage: tuple[tuple[int | None, int | None, int | None], ...] = ()
    """Uncached input, cache read and output of each message."""
    total_tokens: tuple[int, int] | None = None
    outcome: tuple[str, str] | None = None
    skipped: dict[str, int] = {}
    first: dict[str, str] = msgspec.field(default_factory=lambda: READ)
    second: object = msgspec.field(default_factory=lambda: CHECK)
    errors: tuple[bool | None, bool | None] = (False, True)


CACHED = ((60, 40, 10), (50, 100, 20))
PLAIN = ((100, 0, 10), (150, 0, 20))
BROKE = ("error", "no more budget")
CLOSED = ("success", "The valve is closed now.")
TOTAL = (250, 30)
NEW = {"unknown-kind": 1}

SAMPLE_FILES = {
    "atif.json": Sample(
        "atif",
        ("read", "delegate", "shell"),
        usage=(*CACHED, (None, None, 3)),
        total_tokens=TOTAL,
        skipped={"wrong-type": 2},
        errors=(None, True),
    ),
    "claude-code-stream.jsonl": Sample(
        "claude-code-stream",
        ("Read", "Task", "Bash"),
        usage=((60, 40, 10), (20, 100, 20), (7, 0, 3), (1, 150, 5)),
        total_tokens=(408, 38),
        outcome=CLOSED,
        skipped={"not-an-object": 1, "not-json": 1},
        errors=(None, True),
    ),
    "claude-code-session.jsonl": Sample(
        "claude-code-session",
        ("Read", "Agent", "Bash"),
        usage=((60, 40, 10), (20, 100, 20), (7, 0, 3), (1, 150, None)),
        skipped={"repeated-entry": 1, "unknown-kind": 1},
        errors=(None, True),
    ),
    "cline-run.jsonl": Sample(
        "cline-run",
        ("read_files", "run_commands"),
        usage=((None, None, 10), (None, None, 20)),
        total_tokens=TOTAL,
        outcome=BROKE,
        skipped=NEW,
    ),
    "cline.messages.json": Sample(
        "cline-messages", ("read_files", "run_commands"), usage=PLAIN, skipped={"wrong-type": 1}
    ),
    "codex-exec.jsonl": Sample(
        "codex-exec",
        ("command_execution", "mcp__ci__run"),
        total_tokens=TOTAL,
        outcome=CLOSED,
        skipped=NEW,
        first=CAT,
    ),
    "codex-rollout.jsonl": Sample(
        "codex-rollout",
        ("read", "shell"),
        usage=CACHED,
        total_tokens=TOTAL,
        outcome=CLOSED,
        skipped={"wrong-type": 1},
        second="make check",
        errors=(None, True),
    ),
    "copilot-events.jsonl": Sample(
        "copilot-events",
        ("view", "bash"),
        usage=PLAIN,
        total_tokens=TOTAL,
        outcome=("success", "I look."),
        skipped=NEW,
    ),
    "copilot-stream.jsonl": Sample("copilot-stream", ("view", "bash"), outcome=BROKE, skipped=NEW),
    "gemini-session.json": Sample("gemini-session", ("read_file", "run_shell_command"), usage=CACHED),
    "gemini-session.jsonl": Sample(
        "gemini-session", ("read_file", "run_shell_command"), usage=CACHED, skipped=NEW
    ),
    "gemini-stream.jsonl": Sample(
        "gemini-stream",
        ("read_file", "run_shell_command"),
        total_tokens=TOTAL,
        outcome=CLOSED,
        skipped={"not-json": 1},
    ),
    "goose-stream.jsonl": Sample(
        "goose-stream",
        ("read", "shell"),
        total_tokens=TOTAL,
        outcome=("error", "Ran into this error: no more budget"),
        skipped={"wrong-type": 1},
    ),
    "mini-swe-agent.traj.json": Sample(
        "mini-swe-agent",
        ("bash", "bash"),
        usage=CACHED,
        outcome=("success", "diff"),
        skipped={"wrong-type": 1},
        first=CAT,
    ),
    "opencode-run.jsonl": Sample(
        "opencode-run", ("read", "bash"), usage=CACHED, outcome=("success", "I look."), skipped=NEW
    ),
    "openhands-conversation": Sample(
        "openhands-events",
        ("file_editor", "terminal"),
        usage=CACHED,
        total_tokens=TOTAL,
        outcome=("success", ""),
    ),
    "openhands-events.jsonl": Sample(
        "openhands-events", ("file_editor", "terminal"), outcome=BROKE, skipped={"not-json": 1}
    ),
    "pi-events.jsonl": Sample(
        "pi-events",
        ("read", "bash"),
        usage=CACHED,
        outcome=("error", "402 no more budget"),
        skipped={"wrong-type": 1},
    ),
    "pi-session.jsonl": Sample(
        "pi-session", ("read", "bash"), usage=CACHED, outcome=("error", "402 no more budget"), skipped=NEW
    ),
    "qwen-session.jsonl": Sample(
        "qwen-session", ("read_file", "run_shell_command"), usage=CACHED, skipped={"wrong-type": 1}
    ),
    "qwen-stream.jsonl": Sample(
        "qwen-stream",
        ("read_file", "run_shell_command"),
        usage=CACHED,
        total_tokens=TOTAL,
        outcome=("error", "[API Error: 402 no more budget]"),
    ),
    "swe-agent.traj": Sample(
        "swe-agent",
        ("bash", "bash"),
        total_tokens=TOTAL,
        outcome=("success", "diff"),
        first=CAT,
        errors=(None, None),
    ),
    "vibe-stream.jsonl": Sample("vibe-stream", ("file_system.read_file", "file_system.bash"), skipped=NEW),
}


def _figures(usage: ResponseUsage) -> tuple[int | None, int | None, int | None]:
    return usage.input_uncached_tokens, usage.cache_read_tokens, usage.output_tokens


def _skipped(transcript: ImportedTranscript) -> dict[str, int]:
    return {entry.reason: entry.count for entry in transcript.skipped}


def _text(output: ToolOutput | None) -> str:
    assert output is not None
    return output.text


@pytest.mark.parametrize(("name", "sample"), SAMPLE_FILES.items(), ids=SAMPLE_FILES)
def test_a_transcript_tells_its_calls_tokens_and_end(name: str, sample: Sample) -> None:
    transcript = load_transcript(SAMPLES / name)
    calls = transcript.calls
    first, second = calls[0], calls[-1]
    assert transcript.format == sample.format
    assert tuple(call.name for call in calls) == sample.names
    assert [call.order for call in calls] == list(range(len(calls)))
    assert (first.arguments, second.arguments) == (sample.first, sample.second)
    assert (_text(first.output), _text(second.output)) == (CODE, "1 failed")
    assert (first.is_error, second.is_error) == sample.errors
    assert tuple(_figures(each.usage) for each in transcript.usage) == sample.usage
    totals = transcript.totals.usage
    claimed = (totals.request_input_tokens, totals.output_tokens)
    assert claimed == (sample.total_tokens or (None, None))
    stated = transcript.outcome and (transcript.outcome.status, transcript.outcome.text)
    assert stated == sample.outcome
    assert _skipped(transcript) == sample.skipped


def test_every_importer_has_a_sample() -> None:
    sampled = {sample.format for sample in SAMPLE_FILES.values()}
    assert set(IMPORTERS) - sampled == {"aider-chat", "continue-final", "vibe-export"}


@pytest.mark.parametrize("name", sorted(SAMPLE_FILES))
def test_times_are_microseconds_where_the_format_has_them(name: str) -> None:
    transcript = load_transcript(SAMPLES / name)
    start = 1_772_366_400_000_000
    for call in transcript.calls:
        finished_at_us = parse_moment(call.finished)
        for at_us in (call.started_at_us, finished_at_us):
            assert at_us is None or start <= at_us < start + 10_000_000
        if call.started_at_us is not None and finished_at_us is not None:
            assert finished_at_us >= call.started_at_us


@pytest.mark.parametrize("name", ["claude-code-stream.jsonl", "claude-code-session.jsonl", "atif.json"])
def test_calls_of_a_subagent_name_the_call_that_started_it(name: str) -> None:
    main, starter, inner = load_transcript(SAMPLES / name).calls
    assert not main.is_subagent
    assert not starter.is_subagent
    assert inner.is_subagent
    assert inner.parent_call_id == starter.call_id == "t1"


def test_a_call_names_the_subagent_that_it_started() -> None:
    for name in ("claude-code-stream.jsonl", "claude-code-session.jsonl"):
        assert load_transcript(SAMPLES / name).calls[1].started_subagent_id == "a-77"
    assert load_transcript(SAMPLES / "claude-code-session.jsonl").calls[2].subagent_id == "a-77"


def test_blocks_of_one_message_are_one_message() -> None:
    transcript = load_transcript(SAMPLES / "claude-code-stream.jsonl")
    said = [(message.role, message.reasoning, message.text) for message in transcript.messages]
    assert said == [("assistant", "Look first.", "I look."), ("assistant", "", CLOSED[1])]
    assert (transcript.agent, transcript.agent_version, transcript.model) == (
        "claude-code",
        "2.1.0",
        "example-large",
    )
    assert transcript.session_ids == ("s-1",)


def test_totals_are_what_the_agent_claims() -> None:
    totals = load_transcript(SAMPLES / "claude-code-stream.jsonl").totals
    assert (totals.cost_usd, totals.turns, totals.duration_us) == ("0.25", 3, 5_000_000)
    assert totals.usage.cache_write_5m_tokens == 30


def test_the_last_note_on_a_message_counts_and_no_other() -> None:
    transcript = load_transcript(SAMPLES / "claude-code-stream.jsonl")
    assert [each.message_id for each in transcript.usage] == ["m1", "m2", "m3", "m4"]
    assert transcript.total_usage.output_tokens == 38
    assert transcript.total_usage.request_input_tokens == 408


def test_the_output_of_a_message_that_never_ended_is_not_known() -> None:
    transcript = load_transcript(SAMPLES / "claude-code-session.jsonl")
    assert transcript.total_usage.output_tokens is None
    assert transcript.total_usage.request_input_tokens == 408


def test_a_trimmed_trajectory_gives_what_is_left_of_it() -> None:
    transcript = load_transcript(SAMPLES / "atif-trimmed.json")
    first, second = transcript.calls
    assert first.output is not None
    assert first.output.is_trimmed
    assert first.output.text == "def open_valve():\n    return "
    assert (second.call_id, second.name, second.is_subagent) == ("c2", "Bash", True)
    assert isinstance(second.arguments, str)
    assert second.arguments.startswith('{"command": "make ch')
    assert _text(second.output) == "1 failed"
    assert _skipped(transcript) == {"trimmed": 2, "wrong-type": 2}
    # Steps 1 and 2 are one request; what it stored in the cache is not in the prompt's figure.
    assert [each.usage.request_input_tokens for each in transcript.usage] == [109, 150]
    assert [each.usage.output_tokens for each in transcript.usage] == [10, 20]
    assert [each.is_subagent for each in transcript.usage] == [False, True]


def test_a_trajectory_without_tool_calls_has_its_fenced_commands() -> None:
    transcript = load_transcript(SAMPLES / "mini-swe-agent-v1.traj.json")
    assert [call.arguments for call in transcript.calls] == [CAT, CHECK]
    assert [call.is_error for call in transcript.calls] == [False, True]
    assert transcript.outcome is not None
    assert (transcript.outcome.status, transcript.outcome.word) == ("error", "LimitsExceeded")


def test_a_swe_agent_history_without_tool_calls_gives_way_to_the_steps() -> None:
    document = json.loads((SAMPLES / "swe-agent.traj").read_bytes())
    document["history"] = []
    transcript = import_transcript(io.BytesIO(json.dumps(document).encode()), "swe-agent")
    assert [call.arguments for call in transcript.calls] == [CAT, CHECK]


def test_aider_has_edits_and_no_figures() -> None:
    transcript = load_transcript(SAMPLES / "aider.chat.md")
    first, second = transcript.calls
    assert first.arguments == {
        "path": "pump.py",
        "search": "def open_valve():\n\n    return True",
        "replace": "def open_valve():\n\n    return False",
    }
    assert (first.is_error, second.is_error) == (False, None)
    assert transcript.messages[0].text == "Close the valve.\nThen stop."
    assert transcript.model == "example-large"
    assert transcript.usage == ()
    assert transcript.outcome is not None
    assert transcript.outcome.status == "error"


def test_exports_without_calls_have_totals_and_an_end() -> None:
    vibe = load_transcript(SAMPLES / "vibe-export.json")
    assert (vibe.totals.cost_usd, vibe.totals.turns, vibe.totals.duration_us) == ("0.25", 2, 5_000_000)
    assert vibe.totals.usage.input_uncached_tokens == 110
    assert vibe.outcome is not None
    assert vibe.outcome.word == "budget_exceeded"
    final = load_transcript(SAMPLES / "continue-final.json")
    assert final.outcome is not None
    assert (final.outcome.status, final.outcome.text) == CLOSED


def _import_claude(*entries: object) -> ImportedTranscript:
    data = b"\n".join(json.dumps(entry).encode() for entry in entries)
    return import_transcript(io.BytesIO(data), "claude-code-stream")


def _call(
    call_id: object, name: object = "Grep", *, message: str = "m", **fields: object
) -> dict[str, object]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {"pattern": "a"}} | fields
    return {"type": "assistant", "message": {"id": message, "role": "assistant", "content": [block]}}


def _result(call_id: object, content: object) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def test_a_result_goes_to_the_latest_call_of_its_id_and_the_first_result_stands() -> None:
    transcript = _import_claude(
        _result("d", "early"),
        _call("d", message="m1"),
        _result("d", "one"),
        _call("d", message="m2"),
        _result("d", "two"),
        _result("d", "three"),
        _result("elsewhere", "x"),
        _call("d", message="m2"),
        _call("n", name=None),
    )
    assert [_text(call.output) for call in transcript.calls] == ["one", "two"]
    assert _skipped(transcript) == {
        "call-without-name": 1,
        "repeated-call": 1,
        "repeated-result": 1,
        "result-without-call": 2,
    }


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("{not json", "{not json"),
        (None, {}),
        ([1, 2], "[1,2]"),
        (7, "7"),
    ],
)
def test_arguments_are_an_object_or_the_text_that_stands_there(given: object, found: object) -> None:
    transcript = _import_claude(_call("c", input=given))
    assert transcript.calls[0].arguments == found


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (
            [{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}],
            "a\nb",
        ),
        ({"content": [{"type": "text", "text": "a"}]}, "a"),
        ({"files": ["x"]}, '{"files":["x"]}'),
        (None, ""),
        (3, "3"),
    ],
)
def test_an_output_is_text_as_the_model_would_read_it(content: object, text: str) -> None:
    transcript = _import_claude(_call("c"), _result("c", content))
    assert _text(transcript.calls[0].output) == text


def test_entries_without_a_message_hold_its_fields_themselves() -> None:
    old = {"type": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {}}]}
    transcript = _import_claude(old, {"type": "assistant", "message": None})
    assert [call.name for call in transcript.calls] == ["Read"]
    assert _skipped(transcript) == {"wrong-type": 1}


def test_a_line_beyond_the_limit_is_counted_and_the_next_one_is_read() -> None:
    long = json.dumps(_call("long", input={"text": "x" * 5000})).encode()
    short = json.dumps(_call("short")).encode()
    data = b"\n".join([short, long, short.replace(b"short", b"other")])
    limits = ImportLimits(line_bytes=1000)
    transcript = import_transcript(io.BytesIO(data), "claude-code-stream", limits=limits)
    assert [call.call_id for call in transcript.calls] == ["short", "other"]
    assert _skipped(transcript) == {"too-long": 1}
    assert transcript.entries == 3


def test_a_document_beyond_the_limit_is_counted() -> None:
    data = (SAMPLES / "atif.json").read_bytes()
    limits = ImportLimits(document_bytes=100)
    transcript = import_transcript(io.BytesIO(data), "atif", limits=limits)
    assert transcript.calls == ()
    assert _skipped(transcript) == {"too-long": 1}


def test_one_bad_character_does_not_cost_its_entry() -> None:
    line = json.dumps(_call("c")).encode().replace(b'"a"', b'"\\ud83d"')
    result = json.dumps(_result("c", "x")).encode().replace(b'"x"', b'"caf\xe9"')
    transcript = import_transcript(io.BytesIO(line + b"\n" + result), "claude-code-stream")
    assert transcript.calls[0].arguments == {"pattern": "?"}
    assert _text(transcript.calls[0].output) == "caf\N{REPLACEMENT CHARACTER}"
    assert transcript.skipped == ()


def test_a_raw_stream_is_read_and_left_open(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes((SAMPLES / "pi-session.jsonl").read_bytes())
    with path.open("rb", buffering=0) as stream:
        assert len(import_transcript(stream, "pi-session").calls) == 2
        assert not stream.closed


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(SAMPLES / "pi-session.jsonl")
    for path in (tmp_path / "missing", tmp_path / "link"):
        with raises_code("transcript-unreadable"):
            load_transcript(path, "pi-session")
    closed = io.BytesIO()
    closed.close()
    with raises_code("transcript-unreadable"):
        import_transcript(closed, "pi-session")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with raises_code("unknown-transcript-format"):
        import_transcript(io.BytesIO(), "telepathy")
    (tmp_path / "notes.txt").write_text("Dear diary")
    with raises_code("unknown-transcript-format"):
        load_transcript(tmp_path / "notes.txt")
    with raises_code("unknown-transcript-format"):
        load_transcript(tmp_path)


@pytest.mark.parametrize(
    ("format_", "entries", "text"),
    [
        ("codex-exec", [{"type": "error", "message": "trying again"}], "trying again"),
        ("codex-exec", [{"type": "turn.failed", "error": {"message": "402"}}], "402"),
        (
            "codex-rollout",
            [{"type": "event_msg", "payload": {"type": "turn_aborted", "reason": "402"}}],
            "402",
        ),
        (
            "opencode-run",
            [{"type": "error", "error": {"name": "APIError", "data": {"message": "402"}}}],
            "402",
        ),
        ("goose-stream", [{"type": "error", "error": "402"}], "402"),
        ("pi-session", [{"type": "message", "message": {"role": "assistant", "stopReason": "aborted"}}], ""),
        ("copilot-stream", [{"type": "result", "exitCode": 3}], ""),
        (
            "claude-code-stream",
            [{"type": "result", "subtype": "error_max_turns", "errors": ["a", "b"]}],
            "a\nb",
        ),
    ],
)
def test_an_agent_that_says_it_failed_is_quoted(format_: str, entries: list[object], text: str) -> None:
    data = b"\n".join(json.dumps(entry).encode() for entry in entries)
    outcome = import_transcript(io.BytesIO(data), format_).outcome
    assert outcome is not None
    assert (outcome.status, outcome.text) == ("error", text)


def test_input_that_may_or_may_not_contain_the_cache_is_not_known() -> None:
    usage = {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 40, "cacheWriteTokens": 0}
    entry = {"ts": "x", "type": "run_result", "finishReason": "completed", "usage": usage}
    totals = import_transcript(io.BytesIO(json.dumps(entry).encode()), "cline-run").totals.usage
    assert totals.request_input_tokens is None
    assert (totals.cache_read_tokens, totals.output_tokens) == (40, 10)


def test_a_call_that_could_not_be_carried_out_has_the_error_as_its_result() -> None:
    events = [
        {"kind": "ActionEvent", "tool_call_id": "c", "tool_name": "terminal", "action": {"command": "x"}},
        {"kind": "AgentErrorEvent", "tool_call_id": "c", "error": "no such tool"},
    ]
    data = b"\n".join(json.dumps(event).encode() for event in events)
    (call,) = import_transcript(io.BytesIO(data), "openhands-events").calls
    assert (call.arguments, _text(call.output), call.is_error) == ({"command": "x"}, "no such tool", True)


@pytest.mark.parametrize(
    ("format_", "entry"),
    [
        ("claude-code-stream", {"type": "system", "subtype": "init", "cwd": "/app"}),
        ("claude-code-session", {"type": "user", "cwd": "/app", "message": {"role": "user", "content": "x"}}),
        ("codex-rollout", {"type": "session_meta", "payload": {"id": "s", "cwd": "/app"}}),
        ("copilot-events", {"type": "session.start", "data": {"context": {"cwd": "/app"}}}),
        ("pi-session", {"type": "session", "id": "s", "cwd": "/app"}),
        ("atif", {"agent": {"extra": {"cwds": ["/app", "/other"]}}, "steps": []}),
    ],
)
def test_where_the_agent_began_is_known(format_: str, entry: object) -> None:
    assert import_transcript(io.BytesIO(json.dumps(entry).encode()), format_).directory == "/app"


@pytest.mark.parametrize("value", [None, 3, "", [], [7], {"x": 1}])
def test_a_directory_that_is_none_is_not_there(value: object) -> None:
    entry = {"agent": {"extra": {"cwds": value}}, "steps": []}
    assert import_transcript(io.BytesIO(json.dumps(entry).encode()), "atif").directory is None
