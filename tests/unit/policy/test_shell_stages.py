"""Tools by their names and arguments, and the stage that calls need (P7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.words import Stage
from repotrial.policy import decide_stage, load_tool_table, read_tool_use
from support.errors import raises_code


class _Call(msgspec.Struct, frozen=True):
    name: str
    arguments: bytes


def _call(name: str, **arguments: Any) -> _Call:
    return _Call(name, json.dumps(arguments).encode())


FAMILIES: list[tuple[str, str, dict[str, Any]]] = [
    ("read", "Read", {"file_path": "a"}),
    ("search", "Grep", {"pattern": "x"}),
    ("search", "list_directory", {"dir_path": "a"}),
    ("write", "Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
    ("write", "MultiEdit", {"file_path": "a"}),
    ("write", "apply_patch", {"input": "*** Begin Patch"}),
    ("write", "replace", {"file_path": "a", "new_string": "x"}),
    ("shell", "Bash", {"command": "ls"}),
    ("shell", "exec_command", {"cmd": "ls"}),
    ("shell", "run_shell_command", {"command": "ls"}),
    ("shell", "developer__shell", {"command": "ls"}),
    ("shell", "container.exec", {"cmd": ["bash", "-lc", "ls"]}),
    ("shell", "run_commands", {"commands": ["ls", "pwd"]}),
    ("read", "file_editor", {"command": "view", "path": "a"}),
    ("write", "file_editor", {"command": "str_replace", "path": "a", "new_str": "x"}),
    ("write", "str_replace_editor", {"command": "create", "path": "a"}),
    ("read", "mcp__fs__read_file", {"path": "a"}),
    ("other", "TodoWrite", {"todos": []}),
    ("other", "finish", {}),
    ("write", "frobnicate", {"path": "a", "content": "x"}),
    ("shell", "frobnicate", {"command": "ls"}),
    ("unknown", "frobnicate", {"path": "a"}),
]


@pytest.mark.parametrize(("family", "name", "arguments"), FAMILIES, ids=[f"{n}-{f}" for f, n, _ in FAMILIES])
def test_a_tool_has_its_family(family: str, name: str, arguments: dict[str, Any]) -> None:
    assert read_tool_use(name, json.dumps(arguments)).family == family


def test_commands_are_found_wherever_an_agent_puts_them() -> None:
    assert read_tool_use("shell", '{"command": ["bash", "-lc", "ls -l"]}').commands == ("bash -lc 'ls -l'",)
    assert read_tool_use("run_commands", '{"commands": ["a", "b"]}').commands == ("a", "b")
    assert read_tool_use("run_commands", '{"commands": [{"command": "a"}]}').commands == ("a",)
    assert read_tool_use("bash", "not json").commands == ("not json",)


def test_calls_that_differ_only_in_prose_are_the_same_call() -> None:
    first = read_tool_use("Bash", '{"command": "ls", "description": "look"}')
    second = read_tool_use("Bash", '{"description": "look again", "command": "ls"}')
    third = read_tool_use("Bash", '{"command": "ls -l"}')
    assert first.identity == second.identity != third.identity


@pytest.mark.parametrize("arguments", [b"", b"[]", b"nul", b"\xff\xfe", b'{"command": 5}', b'{"path": {}}'])
def test_broken_arguments_raise_nothing(arguments: bytes) -> None:
    read_tool_use("bash", arguments)
    decide_stage("read", [_Call("bash", arguments)])


STAGES: list[tuple[Stage, list[_Call]]] = [
    ("read", []),
    ("read", [_call("Read", file_path="a"), _call("Grep", pattern="x")]),
    ("read", [_call("Bash", command="cat a | head; git log -3")]),
    ("write", [_call("Edit", file_path="a", new_string="x")]),
    ("write", [_call("Bash", command="cat > a <<'E'\nx\nE")]),
    ("write", [_call("Bash", command="python fix.py")]),
    ("write", [_call("Bash", command="pip install x")]),
    ("write", [_call("frobnicate", path="a", content="x")]),
    ("write", [_call("Bash")]),
    ("test", [_call("Bash", command="cd x && python -m pytest -q 2>&1 | tail")]),
    ("test", [_call("Read", file_path="a"), _call("bash", command="npm test")]),
    ("test", [_call("exec_command", cmd="sed -i s/a/b/ x && make check")]),
]


@pytest.mark.parametrize(("stage", "calls"), STAGES)
def test_calls_need_the_lowest_stage_that_lets_them_work(stage: Stage, calls: list[_Call]) -> None:
    assert decide_stage("read", calls).after == stage


EDITS = [
    "calc.py\n```\n<<<<<<< SEARCH\na - b\n=======\na + b\n>>>>>>> REPLACE\n```\n",
    "*** Begin Patch\n*** Update File: calc.py\n@@\n-a\n+b\n*** End Patch",
    "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a\n+b\n",
]


@pytest.mark.parametrize("text", EDITS)
def test_edits_in_the_text_of_an_agent_without_tools_need_the_write_stage(text: str) -> None:
    decision = decide_stage("read", [], texts=["I mend it.", text])
    assert decision.after == "write"
    assert [(signal.name, signal.value) for signal in decision.signals] == [("edit_blocks", 1)]
    # With a call, it is the call that does something.
    assert decide_stage("read", [_call("Read", file_path="a")], texts=[text]).after == "read"


@pytest.mark.parametrize("text", ["I will SEARCH and REPLACE.", "1 << 5 SEARCH", "+++ more\nwords", ""])
def test_a_text_without_edits_leaves_the_stage(text: str) -> None:
    assert not decide_stage("read", [], texts=[text]).is_change


def test_a_stage_is_never_lowered_and_says_what_decided() -> None:
    decision = decide_stage("write", [_call("Read", file_path="a")])
    assert (decision.after, decision.is_change) == ("write", False)
    raised = decide_stage("write", [_call("Bash", command="pytest"), _call("Bash", command="ls")])
    assert raised.is_change
    assert {(signal.name, signal.value) for signal in raised.signals} == {
        ("test_calls", 1),
        ("read_calls", 1),
    }


def test_a_user_can_add_tools(tmp_path: Path) -> None:
    path = tmp_path / "tools.toml"
    path.write_text('schema = "repotrial/tools@1"\n[families]\nwrite = ["frob", "read_file"]\n')
    table = load_tool_table(path)
    assert table.find_family("frob") == "write"
    assert table.find_family("read_file") == "write"
    assert table.find_family("view") == "read"
    assert decide_stage("read", [_Call("frob", b"{}")], table).after == "write"


@pytest.mark.parametrize("text", ["x", 'schema = "repotrial/tools@2"', "[families]\nfly = []"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(text)
    with raises_code("tool-table-invalid"):
        load_tool_table(path)
