"""Files that were never traces, and foreign JSON inside of traces: verdicts, named errors, no tracebacks."""

from __future__ import annotations

import contextlib
import json
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repotrial._core.errors import EvidenceError
from repotrial.trace import BlobStore, RunPaths, ToolInvocation, check_run, iter_events
from repotrial.trace._verify_chain import (
    ChainReport,
    Tampered,
    Truncated,
    Unverifiable,
    check_chain,
    check_stream,
)
from support.exhaustive import examples
from support.run_directories import build_example_manifest, build_run
from support.traces import RUN_ID, bodies_of, build_invocation, chain_bodies, open_writer, write_trace

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def _read_all(path: Path) -> None:
    with contextlib.suppress(EvidenceError):  # anything else fails the test
        for _ in iter_events(path):
            pass


@settings(max_examples=examples(100, thorough=3000))
@given(st.binary(max_size=300) | _JSON.map(lambda value: json.dumps(value).encode() + b"\n"))
@example(b"")
@example(b"\n")
@example(b"\xff\xfe\x00")
@example(b'{"type":"run-opened","payload":{"run_id":"\\ud800"}}\n')
@example(b'{"type":"run-opened","payload":{"run_id":7,"schema":[]}}\n')
@example(b"[" * 5000 + b"\n")
def test_garbage_is_never_a_trace_and_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.jsonl"
    path.write_bytes(data)
    for run_id in (None, RUN_ID):
        assert isinstance(check_chain(path, run_id=run_id).status, Tampered | Truncated | Unverifiable)
    _read_all(path)


@settings(max_examples=examples(100, thorough=3000))
@given(data=st.data())
def test_any_json_under_a_right_hash_ends_in_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.getbasetemp() / "valid"
    if not root.exists():
        write_trace(root, 3)
    first, second, third = (json.loads(body) for body in bodies_of(RunPaths(root).trace.read_bytes()))
    event = data.draw(st.sampled_from([first, second, third]))
    event[data.draw(st.sampled_from(sorted(event)))] = data.draw(_JSON)
    bodies = [
        json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=data.draw(st.booleans())).encode(
            "utf-8", "surrogatepass"
        )
        for part in (first, second, third)
    ]
    path = tmp_path_factory.getbasetemp() / "forged.jsonl"
    path.write_bytes(chain_bodies(bodies))
    check_chain(path, run_id=RUN_ID)
    check_chain(path)
    _read_all(path)


_FOREIGN = {
    "not-a-number": b'{"x": NaN, "y": -Infinity}',
    "beyond-a-double": b'{"x": 1152921504606846976, "y": 1e400}',
    "lone-surrogate": b'{"x": "\\ud800"}',
    "lone-surrogate-raw": b'{"x": "\xed\xa0\x80"}',
    "same-key-twice": b'{"x": 1, "x": 2}',
    "deep": b"[" * 3000 + b"]" * 3000,
    "very-deep": b"[" * 100_000,
    "not-utf-8": b'{"x": "\xff\xfe"}',
    "byte-order-mark": b"\xef\xbb\xbf{}",
    "nul-and-line-ends": b"a\0b\nc\rd\r\ne\xe2\x80\xa8f",
    "an-event-of-ours": b'{"actor":"agent","hash":"'
    + b"0" * 64
    + b'","payload":{},"seq":0,"t":1,"type":"x"}\n',
    "negative-zero": b"[-0.0, 1.0, 1e16]",
    "empty": b"",
}


@pytest.mark.parametrize("name", sorted(_FOREIGN))
def test_foreign_json_is_kept_as_bytes_and_the_trace_stays_valid(tmp_path: Path, name: str) -> None:
    data = _FOREIGN[name]
    with open_writer(tmp_path) as writer:
        writer.append(build_invocation(writer.body(data)), actor="agent")
    assert check_chain(RunPaths(tmp_path).trace, run_id=RUN_ID, expected=writer.head).is_intact
    payload = list(iter_events(RunPaths(tmp_path).trace))[1].payload
    assert isinstance(payload, ToolInvocation)
    assert payload.arguments.load(BlobStore(RunPaths(tmp_path).blobs)) == data


@given(st.binary(max_size=200))
def test_any_bytes_survive_in_a_valid_trace(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("run")
    with open_writer(root) as writer:
        writer.append(build_invocation(writer.body(data)), actor="agent")
    trace = RunPaths(root).trace.read_bytes()
    assert check_stream(BytesIO(trace), run_id=RUN_ID, expected=writer.head).is_intact
    payload = list(iter_events(RunPaths(root).trace))[1].payload
    assert isinstance(payload, ToolInvocation)
    assert payload.arguments.load(BlobStore(RunPaths(root).blobs)) == data


def _forge_types(root: Path, types: list[str]) -> ChainReport:
    write_trace(root, 1)
    (opening,) = bodies_of(RunPaths(root).trace.read_bytes())
    t = json.loads(opening)["t"]
    events = [
        b'{"actor":"agent","payload":{},"seq":%d,"t":%d,"type":"%b"}' % (seq, t + seq, name.encode())
        for seq, name in enumerate(types, 1)
    ]
    return check_stream(BytesIO(chain_bodies([opening, *events])), run_id=RUN_ID)


def test_a_flood_of_invented_types_is_counted_in_bounded_space(tmp_path: Path) -> None:
    report = _forge_types(tmp_path, [f"invented-{number}" for number in range(5000)])
    assert report.is_intact
    assert len(report.unknown_types) == 101
    assert sum(row.count for row in report.unknown_types) == 5000


@pytest.mark.parametrize("name", ["Not-Kebab", "", "x" * 101, "a\\u001b[31m", "a b"])
def test_a_type_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    assert isinstance(_forge_types(tmp_path, [name]).status, Tampered)


@settings(max_examples=examples(50, thorough=1000))
@given(data=st.data())
def test_any_json_in_a_manifest_ends_in_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.getbasetemp() / "bound"
    if not root.exists():
        build_run(root)
    manifest = msgspec.to_builtins(build_example_manifest())
    manifest[data.draw(st.sampled_from(sorted(manifest)))] = data.draw(_JSON)
    RunPaths(root).manifest.write_bytes(
        json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")
    )
    assert not check_run(RunPaths(root), trusted_keys=None).holds
