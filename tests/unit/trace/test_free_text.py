"""Redaction inside payloads: every free text, nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.redaction import SecretRedactor
from repotrial.redaction._redaction import Redacted, RedactedSpan
from repotrial.trace import (
    BlobRef,
    ByTool,
    Command,
    FileAdded,
    RunPaths,
    SymlinkEntry,
    ToolInvocation,
    UnrecordedContent,
    WorkspaceMutation,
    check_run,
    iter_events,
    iter_payload_types,
)
from repotrial.trace._body import build_body
from repotrial.trace._validate import build_tree, redact_tree
from support.errors import raises_code
from support.traces import DIGEST, build_invocation, build_text, open_writer, payloads_of, text_of

PAYLOAD_TYPES = {row.name: row.payload for row in iter_payload_types()}


class _Shout:
    """Replaces a word by a placeholder; the word is also the value of an enumeration."""

    rules_id = "one word"

    def __init__(self, word: str) -> None:
        self._word = word

    def redact(self, text: str) -> Redacted:
        at = text.find(self._word)
        if at < 0:
            return Redacted(text=text)
        rest = self.redact(text[at + len(self._word) :])
        span = RedactedSpan(start=at, length=3, rule="word", original_length=len(self._word))
        return Redacted(text=f"{text[:at]}[X]{rest.text}", spans=(span, *rest.spans))


def test_no_text_of_an_event_keeps_the_secret(tmp_path: Path) -> None:
    with open_writer(tmp_path, redactor=_Shout("hunter2")) as writer:
        invocation = msgspec.structs.replace(
            build_invocation(writer.body(b'{"key": "hunter2"}')),
            command=Command(argv=("login", "--password=hunter2"), cwd="/home/hunter2"),
            call_id="hunter2",
        )
        writer.append(invocation, actor="agent")
        change = FileAdded(
            path="hunter2.txt",
            after=SymlinkEntry(target="hunter2"),
            content=UnrecordedContent(reason="a link"),
        )
        writer.append(WorkspaceMutation(cause=ByTool(invocation=1), changes=(change,)), actor="harness")
    assert b"hunter2" not in RunPaths(tmp_path).trace.read_bytes()
    assert check_run(RunPaths(tmp_path), trusted_keys=None).chain_report.is_intact
    payload = list(iter_events(RunPaths(tmp_path).trace))[1].payload
    assert isinstance(payload, ToolInvocation)
    assert payload.command == Command(argv=("login", "--password=[X]"), cwd="/home/[X]")
    assert text_of(payload.arguments) == '{"key": "[X]"}'


def test_a_secret_that_is_spelled_like_an_enumeration_breaks_nothing(tmp_path: Path) -> None:
    with open_writer(tmp_path, redactor=_Shout("gateway")) as writer:
        writer.append(build_invocation(), actor="agent")
    payload = list(iter_events(RunPaths(tmp_path).trace))[1].payload
    assert isinstance(payload, ToolInvocation)
    assert payload.source == "gateway"


def test_a_body_that_another_made_cannot_carry_a_secret_in(tmp_path: Path) -> None:
    with open_writer(tmp_path, redactor=_Shout("hunter2")) as writer:
        with raises_code("payload-refused", match="made by this writer"):
            writer.append(build_invocation(build_text("hunter2")), actor="agent")
        assert writer.head.count == 1


@pytest.mark.parametrize("event_type", sorted(PAYLOAD_TYPES))
@settings(max_examples=10)
@given(data=st.data())
def test_redaction_of_any_payload_leaves_a_valid_payload(event_type: str, data: st.DataObject) -> None:
    kind = PAYLOAD_TYPES[event_type]
    tree = build_tree(data.draw(payloads_of(kind)))
    redacted = redact_tree(tree, kind, _Shout("\0never in a body\0"))
    assert msgspec.convert(redacted, kind) == msgspec.convert(tree, kind)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_declared_secret_leaves_any_bytes(before: bytes, after: bytes) -> None:
    secret = b"correct-horse-battery-staple"
    redactor = SecretRedactor({"PASSWORD": secret.decode()})
    stored: list[bytes] = []

    def store(data: bytes) -> BlobRef:
        stored.append(data)
        return BlobRef(digest=DIGEST, size_bytes=len(data))

    body = build_body(before + secret + after, redactor=redactor, store=store, inline_bytes=0)
    assert secret not in stored[0]
    assert body.spans
    assert body.length_bytes == len(before + secret + after)
