"""Scripts from files, and the answers that they give."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from repotrial._core.digest import digest_bytes
from repotrial.gateway import Upstream, build_script_schema, load_script
from repotrial.wire import Dialect, WireAnswer, WireRequest
from support.errors import raises_code
from support.gateways import UpstreamRequest
from support.wire import DIALECTS, build_request, read_chunks, target_of

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = b"""
schema = "repotrial/script@1"
description = "Mends add."
model = "canned-1"

[[steps]]
kind = "say"
text = "I look around."

[[steps]]
kind = "shell"
command = "ls -la"
usage = { input_uncached = 10, output = 5 }

[[steps]]
kind = "edit"
path = "calc.py"
old = "a - b"
new = "a + b"

[[steps]]
kind = "raw"
tool = "Bash"
arguments = { command = "id" }

[[steps]]
kind = "finish"
text = "Done."
"""


def _ask(upstream: Upstream, parsed: WireRequest) -> WireAnswer:
    async def send() -> WireAnswer:
        request = UpstreamRequest(
            method="POST", target=target_of(parsed.dialect), headers={}, body=b"", parsed=parsed
        )
        answer = await upstream.send(request)
        assert answer.status == 200
        chunks = [chunk async for chunk in answer.chunks]
        await upstream.close()
        return read_chunks(parsed, tuple(chunks), answer.headers["content-type"])

    return asyncio.run(send())


def _load(directory: Path, data: bytes = SCRIPT) -> Any:
    path = directory / "script.toml"
    path.write_bytes(data)
    return load_script(path)


def test_a_script_is_read_from_a_file_and_described_by_its_digest(tmp_path: Path) -> None:
    loaded = _load(tmp_path)
    assert [type(step).__struct_config__.tag for step in loaded.script.steps[2:4]] == ["edit", "raw"]
    assert loaded.description == f"script {digest_bytes(SCRIPT)}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_whole_conversation_is_played(tmp_path: Path, dialect: Dialect, *, is_streamed: bool) -> None:
    upstream = _load(tmp_path)
    answers = [
        _ask(upstream, build_request(dialect, calls=number, is_streamed=is_streamed)) for number in range(4)
    ]
    assert [call.name for answer in answers for call in answer.calls] == ["bash", "bash", "Bash"]
    assert json.loads(answers[0].calls[0].arguments) == {"command": "ls -la"}
    assert answers[0].texts == ("I look around.",)
    assert answers[3].texts == ("Done.",)
    assert all(answer.is_complete and answer.model == "canned-1" for answer in answers)
    assert answers[0].usage is not None
    assert (answers[0].usage.input_uncached, answers[0].usage.output) == (10, 5)
    identifiers = [call.id for answer in answers for call in answer.calls]
    assert dialect == "gemini" or len(set(identifiers)) == 3


def test_a_count_is_a_number_of_tokens(tmp_path: Path) -> None:
    parsed = build_request("anthropic-messages", is_streamed=False)
    counting = WireRequest(
        **{name: getattr(parsed, name) for name in parsed.__struct_fields__ if name != "is_count_only"},
        is_count_only=True,
    )
    answer = _ask(_load(tmp_path), counting)
    assert (answer.is_complete, answer.usage, answer.calls) == (True, None, ())


def test_many_conversations_at_once_do_not_cross(tmp_path: Path) -> None:
    upstream = _load(tmp_path)
    parsed = {
        (dialect, number): build_request(dialect, calls=number) for dialect in DIALECTS for number in range(4)
    }

    async def ask(request: WireRequest) -> bytes:
        asked = UpstreamRequest(method="POST", target="/", headers={}, body=b"", parsed=request)
        return b"".join([chunk async for chunk in (await upstream.send(asked)).chunks])

    async def ask_all() -> list[bytes]:
        return await asyncio.gather(*(ask(request) for request in list(parsed.values()) * 10))

    answers = asyncio.run(ask_all())
    assert len(set(answers)) == len(parsed)
    assert answers == answers[: len(parsed)] * 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "schema"),
        ('schema = "repotrial/script@2"\nsteps = []', "script@2"),
        ('schema = "repotrial/script@1"', "steps"),
        ('schema = "repotrial/script@1"\nsteps = []', "steps"),
        ('schema = "repotrial/script@1"\n[[steps]]\nkind = "shel"\ncommand = "ls"', "shell"),
        ('schema = "repotrial/script@1"\n[[steps]]\nkind = "shell"', "command"),
        ('schema = "repotrial/script@1"\n[[steps]]\nkind = "shell"\ncommand = ""', "command"),
        ('schema = "repotrial/script@1"\n[[steps]]\nkind = "shell"\ncommand = "ls"\ntypo = 1', "typo"),
        ('schema = "repotrial/script@1"\n[[steps]]\nkind = "say"\ntext = "x"\ndelay_ms = -1', "delay_ms"),
        ('schema = "repotrial/script@1"\n[[steps]', "script.toml:2"),
    ],
)
def test_a_mistake_in_a_script_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with raises_code("script-invalid", match="expected a sound script") as caught:
        _load(tmp_path, text.encode())
    assert said in caught.value.message
    assert "script.toml" in caught.value.message


def test_the_script_of_the_page_is_sound(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "script-a-model.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    kinds = {str(type(step).__struct_config__.tag) for step in _load(tmp_path, text.encode()).script.steps}
    assert kinds == {"shell", "read", "say", "edit", "finish"}
    assert all(f"`{kind}`" in page for kind in (*kinds, "write", "raw"))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with raises_code("script-invalid", match=r"missing\.toml"):
        load_script(tmp_path / "missing.toml")


def test_scripts_meet_the_published_schema_and_mistakes_do_not() -> None:
    schema = build_script_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    scripts = sorted((ROOT / "examples" / "agents").glob("*/*.toml"))
    assert scripts
    for path in scripts:
        assert not list(validator.iter_errors(tomllib.loads(path.read_text(encoding="utf-8")))), path
    assert not list(validator.iter_errors(tomllib.loads(SCRIPT.decode())))
    sound = {"schema": "repotrial/script@1", "steps": [{"kind": "shell", "command": "ls"}]}
    assert validator.is_valid(sound)
    for steps in ([], [{"kind": "shel", "command": "ls"}], [{"kind": "shell"}], [{"command": "ls"}]):
        assert not validator.is_valid({**sound, "steps": steps})
    assert not validator.is_valid({**sound, "schema": "repotrial/script@2"})
