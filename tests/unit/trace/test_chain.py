"""What is hashed: computed here a second time, from the format's description alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

import pytest

from repotrial.trace import Justification, OperatorDecision, PhaseChanged, RunPaths
from repotrial.trace._chain import cut_line, genesis_hash, link_hash
from support.traces import RUN_ID, open_writer, write_trace


def test_the_chain_can_be_computed_with_the_standard_library(tmp_path: Path) -> None:
    head = write_trace(tmp_path, 5)
    previous = hashlib.sha256(b"repotrial/genesis@1\0" + RUN_ID.encode()).digest()
    for seq, line in enumerate(RunPaths(tmp_path).trace.read_bytes().splitlines()):
        event = json.loads(line)
        found = event.pop("hash")
        body = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        link = hashlib.sha256(b"repotrial/event@2\0" + previous + seq.to_bytes(8, "big") + body)
        assert found == link.hexdigest()
        previous = link.digest()
    assert head.hash == previous.hex()


def test_an_envelope_has_exactly_six_members(tmp_path: Path) -> None:
    write_trace(tmp_path, 2)
    for line in RunPaths(tmp_path).trace.read_bytes().splitlines():
        assert list(json.loads(line)) == ["actor", "hash", "payload", "seq", "t", "type"]


@pytest.mark.parametrize("actor", ["agent", "harness", "monitor", "operator"])
def test_the_hash_is_found_behind_every_actor(
    tmp_path: Path, actor: Literal["agent", "harness", "monitor", "operator"]
) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(PhaseChanged(phase="bind", previous=None), actor=actor)
    line = RunPaths(tmp_path).trace.read_bytes().splitlines()[1]
    event = json.loads(line)
    member = b'"hash":"%b",' % event["hash"].encode()
    assert cut_line(line) == (event["hash"].encode(), line.replace(member, b""))


def test_a_hash_inside_a_payload_is_not_taken_for_the_event_s() -> None:
    assert cut_line(b'{"actor":"x","hash":"' + b"0" * 64 + b'","payload":{}}') is None
    assert cut_line(b'{"actor":"agent","payload":{"hash":"' + b"0" * 64 + b'",') is None
    assert cut_line(b'{"actor":"agent","hash":"' + b"0" * 63 + b'","payload":{}}') is None
    assert cut_line(b"") is None


def test_two_runs_start_from_different_hashes() -> None:
    assert genesis_hash("run-1") != genesis_hash("run-2")


def test_the_link_depends_on_each_of_its_parts() -> None:
    links = {
        link_hash(b"\0" * 32, 0, b"{}", version=2),
        link_hash(b"\1" * 32, 0, b"{}", version=2),
        link_hash(b"\0" * 32, 1, b"{}", version=2),
        link_hash(b"\0" * 32, 0, b"[]", version=2),
        link_hash(b"\0" * 32, 0, b"{}", version=1),
    }
    assert len(links) == 5


def test_a_decision_keeps_its_words(tmp_path: Path) -> None:
    words = 'line\u2028separator, "quotes", \\, \x7f, \x00, 🐎'
    with open_writer(tmp_path) as writer:
        why = Justification(reason="reviewed", text=words)
        writer.append(
            OperatorDecision(operator="ops", decision="resume", justification=why), actor="operator"
        )
    last = RunPaths(tmp_path).trace.read_bytes().split(b"\n")[1]
    assert json.loads(last)["payload"]["justification"]["text"] == words
