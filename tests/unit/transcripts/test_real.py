"""Transcripts of real agents: every one is read, and the counts are those of a plain look at the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repotrial._core.errors import UsageError
from repotrial.transcripts import ImportedTranscript, load_transcript
from support.retrieval_cases import list_cases

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
FOLDERS = [DATA / "agent_samples", DATA / "traces" / "atif", DATA / "traces" / "claude-code-sessions"]
FILES = sorted(path for folder in FOLDERS if folder.is_dir() for path in folder.iterdir())

needs_data = pytest.mark.skipif(not FILES, reason="the collection of transcripts is not beside this checkout")

# Calls, results, messages with usage, input and output tokens of all of them.
COUNTS: dict[str, tuple[int, int, int, int | None, int | None]] = {
    "claude-code.stream.jsonl": (4, 4, 5, 146_111, None),
    "claude-code.session.jsonl": (4, 4, 5, 146_111, 100),
    "codex.rollout.jsonl": (4, 4, 5, 50_703, 100),
    "codex.exec.jsonl": (4, 4, 0, None, None),
    "gemini-cli.session.jsonl": (4, 4, 5, 62_286, 100),
    "qwen-code.stream.jsonl": (4, 4, 5, 99_334, 100),
    "qwen-code.session.jsonl": (4, 4, 5, 99_334, 100),
    "opencode.run.jsonl": (4, 4, 5, 39_659, 100),
    "pi.events.jsonl": (4, 4, 5, 8_110, 100),
    "pi.session.jsonl": (4, 4, 5, 8_110, 100),
    "copilot.events.jsonl": (4, 4, 5, 61_233, 100),
    "cline.run.jsonl": (4, 4, 5, 28_631, 100),
    "cline.messages.json": (4, 4, 5, 28_631, 100),
    "goose.stream.jsonl": (4, 4, 0, None, None),
    "vibe.stream.jsonl": (4, 4, 0, None, None),
    "mini-swe-agent.traj.json": (5, 5, 5, 5_568, 100),
    "openhands.events.jsonl": (5, 5, 0, None, None),
    "openhands.stdout.txt": (5, 5, 0, None, None),
    "openhands.base_state.json": (0, 0, 5, 45_857, 100),
    "swe-agent.traj.json": (6, 6, 0, None, None),
    "mcp_batch_incident-investigation-002_mcp_only.jsonl": (23, 23, 24, 677_489, None),
    "mcp_batch_v4_incident_hybrid.jsonl": (16, 16, 13, 369_796, 7_204),
    "studies_rryas-headline-v6_runs_dep-traversal-002_cli_rep1_attempt1.jsonl": (
        22,
        22,
        23,
        1_068_763,
        11_992,
    ),
    "atif-v1.2_claude-code_005589_trimmed.json": (16, 16, 11, 256_184, 6_846),
    "atif-v1.2_claude-code_618b26.json": (23, 22, 24, 2_179_250, 289),
    "atif-v1.5_openhands_03230b_trimmed.json": (33, 32, 34, 455_104, 4_076),
    "atif-v1.5_openhands_04fc05_trimmed.json": (19, 18, 15, 282_483, 14_422),
    "golden_terminus_timeout.json": (3, 3, 3, 882, 115),
    "rfc_mini-swe-agent.json": (3, 3, 3, 2_512, 199),
    "rfc_gemini-cli.json": (0, 0, 1, 5_915, 24),
}
REFUSED = {
    "claude-code.end402.jsonl": "API Error: 402 budget exhausted",
    "cline.end402.jsonl": "budget exhausted",
    "codex.end402.jsonl": "unexpected status 402 Payment Required: budget exhausted",
    "copilot.end402.jsonl": "",
    "gemini-cli.end402.jsonl": "[API Error: ",
    "goose.end403.jsonl": "Ran into this error: ",
    "mini-swe-agent.end402.traj.json": "litellm.APIError: ",
    "opencode.end402.jsonl": "budget exhausted",
    "openhands.end402.event.json": "litellm.APIError: ",
    "pi.end402.jsonl": "402 budget exhausted",
    "qwen-code.end402.jsonl": "[API Error: 402 budget exhausted]",
    "vibe.end403.export.json": "Invalid API key.",
}
UNREADABLE = {"not-json", "not-an-object", "too-deep", "too-long", "unknown-kind", "wrong-type"}


def _skipped(transcript: ImportedTranscript) -> dict[str, int]:
    return {entry.reason: entry.count for entry in transcript.skipped}


@needs_data
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_real_transcript_is_understood(path: Path) -> None:
    transcript = load_transcript(path)
    not_understood = UNREADABLE & _skipped(transcript).keys()
    if path.name == "openhands.stdout.txt":  # prose around the events
        not_understood -= {"not-json"}
    assert not not_understood
    assert transcript.calls or transcript.messages or transcript.outcome or transcript.usage
    for call in transcript.calls:
        assert call.output is None or isinstance(call.output.text, str)


@needs_data
@pytest.mark.parametrize(("name", "counts"), COUNTS.items(), ids=COUNTS)
def test_calls_results_and_tokens_are_counted_exactly(
    name: str, counts: tuple[int, int, int, int | None, int | None]
) -> None:
    transcript = load_transcript(next(path for path in FILES if path.name == name))
    total = transcript.total_usage
    assert counts == (
        len(transcript.calls),
        sum(call.output is not None for call in transcript.calls),
        len(transcript.usage),
        total.request_input_tokens,
        total.output_tokens,
    )


@needs_data
@pytest.mark.parametrize(("name", "text"), REFUSED.items(), ids=REFUSED)
def test_an_agent_without_budget_says_that_it_failed(name: str, text: str) -> None:
    outcome = load_transcript(next(path for path in FILES if path.name == name)).outcome
    assert outcome is not None
    assert outcome.status == "error"
    assert outcome.text.startswith(text)


@needs_data
def test_totals_of_the_agents_agree_with_the_sum_over_their_messages() -> None:
    for path in FILES:
        transcript = load_transcript(path)
        claimed, summed = transcript.totals.usage, transcript.total_usage
        if path.parent.name == "agent_samples" and claimed.request_input_tokens and transcript.usage:
            assert claimed.request_input_tokens == summed.request_input_tokens, path.name


@pytest.mark.parametrize("path", list_cases())
def test_the_traces_of_every_retrieval_case_are_read(path: Path, tmp_path: Path) -> None:
    for name, text in json.loads(path.read_bytes())["input"].items():
        file = name.rsplit("/", 1)[-1]
        if file != "trajectory.json" and not file.endswith(("-code.txt", "transcript.jsonl")):
            continue
        data = text.encode()
        default = "atif" if file == "trajectory.json" else "claude-code-stream"
        (tmp_path / file).write_bytes(data)
        try:
            transcript = load_transcript(tmp_path / file)
        except UsageError:  # no format is recognized in a broken beginning: read it as what it should be
            transcript = load_transcript(tmp_path / file, default)
        assert len(transcript.calls) == _count_calls(data, file) or "crash" in path.stem
        for call in transcript.calls:
            assert call.output is None or isinstance(call.output.text, str)


def _count_calls(data: bytes, file: str) -> int:
    """By the words alone, without parsing."""
    if file == "trajectory.json" and b"steps" not in data:
        return 0
    return (
        data.count(b'"function_name": ') if file == "trajectory.json" else data.count(b'"type": "tool_use"')
    )
