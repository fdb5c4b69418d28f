"""Conversations that grow: stored once, rebuilt whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.trace import (
    BlobStore,
    Conversation,
    EventRef,
    Prompt,
    RawMessage,
    RunPaths,
    WriterOptions,
    iter_events,
)
from repotrial.trace._payloads.actions import Message, digest_messages
from support.traces import open_writer, ref_of


def _load(root: Path, seq: int) -> list[RawMessage]:
    """The messages of the prompt at `seq`, from what the trace holds alone."""
    store = BlobStore(RunPaths(root).blobs)
    held: dict[int, list[Message]] = {}
    for event in iter_events(RunPaths(root).trace):
        if isinstance(prompt := event.payload, Prompt):
            repeated: list[Message] = []
            if prompt.repeats is not None:
                repeated = held[prompt.repeats.prompt][: prompt.repeats.messages]
                assert len(repeated) == prompt.repeats.messages
                assert digest_messages(repeated) == prompt.repeats.digest
            held[event.seq] = [*repeated, *prompt.messages]
    return [RawMessage(message.role, message.body.load(store)) for message in held[seq]]


def _talk(turns: int, size: int = 1000) -> list[RawMessage]:
    return [
        RawMessage("user" if turn % 2 else "assistant", b"%08d" % turn * (size // 8)) for turn in range(turns)
    ]


def _size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("message_bytes", [800, 8000])
def test_growing_prompts_take_linear_space(tmp_path: Path, message_bytes: int) -> None:
    sizes = {}
    for turns in (50, 200):
        messages = _talk(turns, message_bytes)
        with open_writer(tmp_path / str(turns)) as writer:
            conversation = Conversation(writer, name="main")
            refs = [
                conversation.append(messages[: turn + 1], model="m", request=b"{}") for turn in range(turns)
            ]
        sizes[turns] = _size(tmp_path / str(turns))
        assert _load(tmp_path / str(turns), ref_of(refs[-1]).seq) == messages
    assert sizes[200] < 4.5 * sizes[50]
    assert sizes[200] < 200 * (message_bytes + 1200)


def test_a_rewritten_conversation_repeats_only_what_is_the_same(tmp_path: Path) -> None:
    first = _talk(6)
    second = [*first[:3], RawMessage("user", b"summary of the rest")]
    third = [*second, RawMessage("assistant", b"go on")]
    with open_writer(tmp_path) as writer:
        conversation = Conversation(writer, name="main")
        refs = [
            ref_of(conversation.append(messages, model="m", request=b"{}"))
            for messages in (first, second, third)
        ]
    prompts = [event.payload for event in iter_events(RunPaths(tmp_path).trace)][1:]
    assert [len(prompt.messages) for prompt in prompts if isinstance(prompt, Prompt)] == [6, 1, 1]
    assert [_load(tmp_path, ref.seq) for ref in refs] == [first, second, third]


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=5), max_size=8))
def test_any_prompts_are_rebuilt(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[list[bytes]]
) -> None:
    root = tmp_path_factory.mktemp("run")
    sent = [[RawMessage("user", data) for data in prompt] for prompt in prompts]
    with open_writer(root) as writer:
        conversation = Conversation(writer, name="main")
        refs = [ref_of(conversation.append(messages, model="m", request=b"{}")) for messages in sent]
    assert [_load(root, ref.seq) for ref in refs] == sent


def test_the_same_words_in_another_role_are_another_message(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        conversation = Conversation(writer, name="main")
        conversation.append([RawMessage("user", b"x")], model="m", request=b"{}")
        ref = ref_of(conversation.append([RawMessage("system", b"x")], model="m", request=b"{}"))
    assert _load(tmp_path, ref.seq) == [RawMessage("system", b"x")]


def test_a_dropped_prompt_is_never_referred_to(tmp_path: Path) -> None:
    options = WriterOptions(type_budget_bytes={"prompt": 3000})
    messages = _talk(30, 80)
    with open_writer(tmp_path, options=options) as writer:
        conversation = Conversation(writer, name="main")
        results = [conversation.append(messages[: turn + 1], model="m", request=b"{}") for turn in range(30)]
    recorded = [result.seq for result in results if isinstance(result, EventRef)]
    assert 0 < len(recorded) < 30
    for seq in recorded:
        assert _load(tmp_path, seq)
