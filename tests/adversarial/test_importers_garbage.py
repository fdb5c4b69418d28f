"""No bytes lead to anything but a transcript: what makes no sense is counted, never believed, never fatal."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from repotrial.transcripts import (
    IMPORTERS,
    GatewayCall,
    ImportedTranscript,
    compare_with_gateway,
    import_transcript,
)
from repotrial.transcripts._compare import digest_arguments
from repotrial.transcripts._detect import detect_format
from repotrial.transcripts._lines import ImportLimits

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "transcripts"
FORMATS = sorted(IMPORTERS)
FILES = {
    **{path.stem: path for path in SAMPLES.iterdir() if path.stem in IMPORTERS},
    "aider-chat": SAMPLES / "aider.chat.md",
    "cline-messages": SAMPLES / "cline.messages.json",
    "mini-swe-agent": SAMPLES / "mini-swe-agent.traj.json",
}
SCALARS: list[object] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    "",
    "x",
    "{",
    '{"a":1}',
    "2026-13-45T99:99",
    "\u2028",
    [],
    {},
    [None],
    [[]],
]

json_values = st.recursive(
    st.sampled_from(SCALARS)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _use(transcript: ImportedTranscript) -> None:
    """Everything that a reader of a transcript does with it."""
    for call in transcript.calls:
        assert call.name
        assert isinstance(call.arguments, dict | str)
        assert call.started_at_us is None or isinstance(call.started_at_us, int)
        assert call.output is None or isinstance(call.output.text, str)
        digest_arguments(call.arguments)
    for message in transcript.messages:
        assert message.at_us is None or isinstance(message.at_us, int)
        assert isinstance(message.text, str)
    for usage in (
        transcript.totals.usage,
        transcript.total_usage,
        *(each.usage for each in transcript.usage),
    ):
        figures = [value for value in msgspec.structs.astuple(usage) if isinstance(value, int)]
        assert all(figure >= 0 for figure in figures)
    assert all(entry.count > 0 for entry in transcript.skipped)
    assert len({each.message_id for each in transcript.usage}) == len(transcript.usage)
    wire = GatewayCall.build("c1", "x", b"{}")
    compare_with_gateway(transcript, [wire], usage=transcript.total_usage, cost_usd="1")


def _import(data: bytes, format_: str, limits: ImportLimits | None = None) -> ImportedTranscript:
    transcript = import_transcript(io.BytesIO(data), format_, limits=limits)
    _use(transcript)
    return transcript


@pytest.mark.parametrize("format_", FORMATS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.binary() | st.lists(json_values, max_size=4).map(lambda values: b"\n".join(map(_dump, values)))
)
@example(data=b"")
@example(data=b"\n\n \n")
@example(data=b'{"type":')
@example(data=b"{" * 5000)
@example(data=b"[" * 100_000)
@example(data=b'{"type":"assistant","message":' + b'{"content":[' * 3000)
@example(data=b'{"a":' * 900 + b"1" + b"}" * 900)
@example(data=b'\xef\xbb\xbf{"type":"user"}')
@example(data=b'{"type":"\xff\xfe"}')
@example(data=b'{"type":1e999}')
@example(data=b'{"timestamp":' + b"9" * 5000 + b"}")
def test_any_bytes_are_a_transcript(format_: str, data: bytes) -> None:
    _import(data, format_)
    detect_format(data, "file")


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


def _read_entries(format_: str) -> tuple[list[object], bool]:
    """The sample's entries, and whether they are lines."""
    text = FILES[format_].read_text(encoding="utf-8")
    if IMPORTERS[format_].whole is not None:
        return [json.loads(text)], False
    return [json.loads(line) for line in text.split("\n") if line.startswith("{")], True


def _iter_places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _iter_places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_places(item, (*path, index))


def _replace(value: object, path: tuple[object, ...], by: object) -> object:
    if not path:
        return by
    key, *rest = path
    if isinstance(value, dict):
        return {
            each: _replace(item, tuple(rest), by) if each == key else item for each, item in value.items()
        }
    assert isinstance(value, list)
    return [_replace(item, tuple(rest), by) if index == key else item for index, item in enumerate(value)]


JSON_FORMATS = [format_ for format_ in FORMATS if format_ != "aider-chat"]


@pytest.mark.parametrize("format_", JSON_FORMATS)
def test_a_wrong_type_in_any_one_field_is_survived(format_: str) -> None:
    entries, _ = _read_entries(format_)
    whole = [_dump(entry) for entry in entries]
    for number, entry in enumerate(entries):
        for turn, path in enumerate(_iter_places(entry)):
            for by in (SCALARS[turn % len(SCALARS)], [{"x": [1]}]):
                damaged = [*whole[:number], _dump(_replace(entry, path, by)), *whole[number + 1 :]]
                import_transcript(io.BytesIO(b"\n".join(damaged)), format_)


@pytest.mark.parametrize("format_", JSON_FORMATS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_wrong_types_in_many_fields_are_survived(format_: str, data: st.DataObject) -> None:
    entries, _ = _read_entries(format_)
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(entries) - 1))
        path = data.draw(st.sampled_from(list(_iter_places(entries[index]))))
        entries[index] = _replace(entries[index], path, data.draw(json_values))
    _import(b"\n".join(map(_dump, entries)), format_)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_transcript_cut_anywhere_is_read_as_far_as_it_goes(format_: str) -> None:
    data = FILES[format_].read_bytes()
    for end in range(0, len(data), max(len(data) // 30, 1)):
        _use(import_transcript(io.BytesIO(data[:end]), format_))


@pytest.mark.parametrize("format_", [name for name in JSON_FORMATS if not IMPORTERS[name].whole])
def test_damage_to_one_line_costs_that_line_alone(format_: str) -> None:
    entries, _ = _read_entries(format_)
    clean = _import(b"\n".join(map(_dump, entries)), format_)
    junk = [b"\x00\xff", b"[1]", b"null", b'"text"', b"{", b"7", b"\r", b"\xe2\x80\xa8"]
    mixed = b"\n".join(part for entry in entries for part in (_dump(entry), *junk))
    noisy = _import(mixed, format_)
    assert noisy.calls == clean.calls
    assert noisy.messages == clean.messages
    assert noisy.usage == clean.usage
    assert noisy.outcome == clean.outcome
    counted = sum(entry.count for entry in noisy.skipped) - sum(entry.count for entry in clean.skipped)
    assert counted == 7 * len(entries)  # a lone carriage return is blank


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    # Raw in the line where JSON allows it, escaped where it does not.
    shown = separator if separator in "\u2028\u2029\x85" else json.dumps(separator)[1:-1]
    line = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"R%s","input":{}}]}}'
    transcript = _import((line % shown).encode(), "claude-code-stream")
    assert [call.name for call in transcript.calls] == [f"R{separator}"]


class _Endless(io.RawIOBase):
    """A line of any length that is never in memory, then a good one."""

    def __init__(self, size: int, after: bytes) -> None:
        self._left = size
        self._after = io.BytesIO(after)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # a narrower buffer
        if not self._left:
            return self._after.readinto(buffer)
        count = min(len(buffer), self._left)
        buffer[:count] = b"x" * count
        self._left -= count
        return count


def test_a_line_of_200_megabytes_is_counted_and_not_held() -> None:
    good = b'\n{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"c","name":"R"}]}}'
    stream = io.BufferedReader(_Endless(200_000_000, good))
    tracemalloc.start()
    try:
        transcript = import_transcript(
            stream, "claude-code-stream", limits=ImportLimits(line_bytes=1_000_000)
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [call.name for call in transcript.calls] == ["R"]
    assert [(entry.reason, entry.count) for entry in transcript.skipped] == [("too-long", 1)]
    assert peak < 8_000_000


def test_a_message_in_a_million_pieces_takes_no_time_squared() -> None:
    piece = _dump(
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "x" * 50}]}}
    )
    transcript = import_transcript(io.BytesIO(b"\n".join([piece] * 20_000)), "claude-code-stream")
    (message,) = transcript.messages
    assert len(message.text) == 20_000 * 51 - 1


def test_fences_without_end_take_no_time_squared() -> None:
    for text in ("```bash\n" * 20_000, "```bash" + "\n" * 100_000, "x\n```\n<<<<<<< SEARCH\n" * 20_000):
        message = {"role": "assistant", "content": text}
        _use(import_transcript(io.BytesIO(_dump({"messages": [message]})), "mini-swe-agent"))
        _use(import_transcript(io.BytesIO(text.encode()), "aider-chat"))


def test_subagents_within_subagents_end_somewhere() -> None:
    trajectory: dict[str, object] = {"steps": []}
    for _ in range(100):
        trajectory = {"steps": [], "subagent_trajectories": [trajectory]}
    transcript = _import(_dump(trajectory), "atif")
    assert ("too-deep", 1) in [(entry.reason, entry.count) for entry in transcript.skipped]
