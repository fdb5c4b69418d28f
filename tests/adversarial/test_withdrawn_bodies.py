"""Texts that are taken out of a finished run: the chain holds without them (P13, P27)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repotrial.trace import DoesNotHold, Holds, RunPaths, RunVerification, check_run, iter_events
from support.run_directories import build_sealed_run
from support.traces import chain_bodies

_STORED = ("text", "base64", "blob")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return build_sealed_run(tmp_path / "run")[0]


def _check(paths: RunPaths) -> RunVerification:
    return check_run(paths, trusted_keys=None)


def _edit(paths: RunPaths, change: Callable[[dict[str, Any]], object]) -> int:
    """Apply `change` to every body of the trace, and leave the hashes as they are; how many there were."""
    count = 0

    def walk(value: Any) -> Any:
        nonlocal count
        if isinstance(value, dict):
            if value.get("stored") in _STORED:
                count += 1
                return change(value)
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    lines = [json.loads(line) for line in paths.trace.read_bytes().splitlines()]
    edited = [json.dumps(walk(x), sort_keys=True, separators=(",", ":"), ensure_ascii=False) for x in lines]
    paths.trace.write_text("".join(f"{line}\n" for line in edited))
    return count


def _withdraw(body: dict[str, Any]) -> dict[str, Any]:
    """As the page on the run directory describes it, with the standard library alone."""
    kept = {key: body[key] for key in ("digest", "length_bytes", "spans")}
    match body["stored"]:
        case "text":
            digest = "sha256:" + hashlib.sha256(body["text"].encode()).hexdigest()
        case "base64":
            digest = "sha256:" + hashlib.sha256(base64.b64decode(body["base64"])).hexdigest()
        case _:
            digest = body["blob"]["digest"]
    return {**kept, "stored": "withdrawn", "stored_digest": digest}


def test_a_run_as_it_was_recorded_has_all_of_its_bodies(paths: RunPaths) -> None:
    found = _check(paths)
    assert isinstance(found.chain, Holds)
    assert found.seal_report.is_intact
    assert found.chain_report.withdrawn == ()


def test_the_chain_and_the_seal_hold_after_every_body_was_taken_out(paths: RunPaths) -> None:
    assert _edit(paths, _withdraw) > 5
    assert b"fix it" not in paths.trace.read_bytes()
    found = _check(paths)
    assert isinstance(found.chain, Holds)
    assert found.seal_report.is_intact
    assert len(found.chain_report.withdrawn) > 5


def test_a_withdrawn_blob_may_be_gone(paths: RunPaths) -> None:
    _edit(paths, lambda body: _withdraw(body) if body["stored"] == "blob" else body)
    digests = [digest.removeprefix("sha256:") for digest in _check(paths).chain_report.withdrawn]
    assert digests
    for digest in digests:
        (paths.blobs / digest[:2] / digest[2:]).unlink()
    assert _check(paths).seal_report.is_intact


def test_a_blob_that_is_gone_and_was_not_taken_out_breaks_the_seal(paths: RunPaths) -> None:
    _edit(paths, lambda body: _withdraw(body) if body["stored"] == "text" else body)
    next(path for path in paths.blobs.rglob("*") if path.is_file()).unlink()
    assert not _check(paths).seal_report.is_intact


@pytest.mark.parametrize("field", ["text", "digest", "length_bytes", "spans"])
def test_an_edited_body_breaks_the_chain(paths: RunPaths, field: str) -> None:
    def lie(body: dict[str, Any]) -> dict[str, Any]:
        if body["stored"] != "text":
            return body
        other: dict[str, object] = {
            "text": "I did nothing",
            "digest": "sha256:" + "0" * 64,
            "length_bytes": 13,
            "spans": [{"start": 0, "length": 1, "rule": "x", "original_length": 1}],
        }
        return {**body, field: other[field]}

    _edit(paths, lie)
    assert isinstance(_check(paths).chain, DoesNotHold)


def test_a_body_that_comes_back_with_other_words_breaks_the_chain(paths: RunPaths) -> None:
    _edit(paths, lambda body: {**body, "text": "fit"} if body["stored"] == "text" else body)
    found = _check(paths)
    assert isinstance(found.chain, DoesNotHold)
    assert not found.seal_report.is_intact


def test_a_member_beside_a_body_does_not_hide_in_it(paths: RunPaths) -> None:
    _edit(paths, lambda body: {**body, "note": "unseen"})
    assert isinstance(_check(paths).chain, DoesNotHold)


def test_base64_in_another_spelling_is_not_the_same_body(paths: RunPaths) -> None:
    """`b64decode` forgives bits that nothing needs; the chain must not."""
    opened = json.loads(paths.trace.read_bytes().splitlines()[0])
    digest = "sha256:" + hashlib.sha256(b"\xff").hexdigest()
    body = {"digest": digest, "length_bytes": 1, "spans": [], "stored": "base64", "base64": "/w=="}
    payload = {"tool": "x", "arguments": body}
    opened.pop("hash")
    event = {"actor": "agent", "payload": payload, "seq": 1, "t": opened["t"] + 1, "type": "from-the-future"}
    lines = [json.dumps(each, sort_keys=True, separators=(",", ":")).encode() for each in (opened, event)]
    honest = chain_bodies(lines, run_id=opened["payload"]["run_id"])
    paths.trace.write_bytes(honest)
    paths.seal.unlink()
    assert isinstance(_check(paths).chain, Holds)
    paths.trace.write_bytes(honest.replace(b"/w==", b"/x=="))
    assert isinstance(_check(paths).chain, DoesNotHold)


def test_a_trace_says_which_version_it_has(paths: RunPaths) -> None:
    first = next(iter_events(paths.trace))
    assert getattr(first.payload, "schema", None) == "repotrial/trace@2"
    other = paths.trace.read_bytes().replace(b"repotrial/trace@2", b"repotrial/trace@1")
    paths.trace.write_bytes(other)
    assert isinstance(_check(paths).chain, DoesNotHold)
