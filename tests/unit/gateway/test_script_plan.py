"""A script drives any agent with the agent's own tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from repotrial.gateway._script._plan import plan_turn
from repotrial.gateway._script._script import (
    EditStep,
    FinishStep,
    RawStep,
    ReadStep,
    SayStep,
    Script,
    ScriptedUsage,
    ShellStep,
    Step,
    WriteStep,
)
from repotrial.wire import Dialect, ToolCall
from support.agent_tools import AGENT_TOOLS
from support.wire import DIALECTS, build_body, build_request, parse

STEPS: tuple[Step, ...] = (
    ShellStep(command="ls -la"),
    ReadStep(path="calc.py"),
    EditStep(path="calc.py", old="a - b", new="a + b"),
    WriteStep(path="docs/new.md", content="# New\n"),
    FinishStep(text="Fixed."),
)
FILE = "/workspace/calc.py"


def _script(*steps: Step) -> Script:
    return Script(schema="repotrial/script@1", steps=steps or STEPS)


def _plan(agent: str, number: int, *steps: Step, prompt: str = "fix it") -> tuple[ToolCall | None, str]:
    dialect, tools = AGENT_TOOLS[agent]
    request = build_request(dialect, tools=tools, calls=number, prompt=prompt)
    turn = plan_turn(_script(*steps), request, workspace="/workspace").turn
    return (turn.calls[0] if turn.calls else None), turn.text


def _call(agent: str, number: int, *steps: Step) -> tuple[str, dict[str, Any]]:
    call, _ = _plan(agent, number, *steps)
    assert call is not None
    return call.name, json.loads(call.arguments)


@pytest.mark.parametrize(
    ("agent", "name", "arguments"),
    [
        ("claude-code", "Bash", {"command": "ls -la"}),
        ("codex", "exec_command", {"cmd": "ls -la"}),
        ("gemini-cli", "run_shell_command", {"command": "ls -la"}),
        ("qwen-code", "run_shell_command", {"command": "ls -la", "is_background": False}),
        ("opencode", "bash", {"command": "ls -la", "description": "scripted step"}),
        ("cline", "run_commands", {"commands": ["ls -la"]}),
        ("goose", "shell", {"command": "ls -la"}),
        ("openhands", "terminal", {"command": "ls -la", "security_risk": "LOW"}),
        ("local-shell", "shell", {"command": ["bash", "-c", "ls -la"]}),
        ("grouped", "developer__shell", {"command": "ls -la"}),
    ],
)
def test_a_command_goes_to_the_agents_shell(agent: str, name: str, arguments: dict[str, Any]) -> None:
    assert _call(agent, 0) == (name, arguments)


@pytest.mark.parametrize(
    ("agent", "name", "arguments"),
    [
        ("claude-code", "Read", {"file_path": FILE}),
        ("gemini-cli", "read_file", {"file_path": FILE}),
        ("qwen-code", "read_file", {"absolute_path": FILE}),
        ("opencode", "read", {"filePath": FILE}),
        ("pi", "read", {"path": FILE}),
        ("copilot", "view", {"path": FILE}),
        ("cline", "read_files", {"files": [{"path": FILE}]}),
        ("openhands", "file_editor", {"command": "view", "path": FILE, "security_risk": "LOW"}),
        ("swe-agent", "str_replace_editor", {"command": "view", "path": FILE}),
        ("continue", "Read", {"filepath": FILE}),
        ("goose", "shell", {"command": f"cat {FILE}"}),
        ("codex", "exec_command", {"cmd": f"cat {FILE}"}),
    ],
)
def test_a_file_is_read_with_the_agents_own_tool(agent: str, name: str, arguments: dict[str, Any]) -> None:
    assert _call(agent, 1) == (name, arguments)


@pytest.mark.parametrize(
    ("agent", "name", "arguments"),
    [
        ("claude-code", "Edit", {"file_path": FILE, "old_string": "a - b", "new_string": "a + b"}),
        (
            "gemini-cli",
            "replace",
            {
                "file_path": FILE,
                "old_string": "a - b",
                "new_string": "a + b",
                "instruction": "scripted step",
            },
        ),
        ("opencode", "edit", {"filePath": FILE, "oldString": "a - b", "newString": "a + b"}),
        ("pi", "edit", {"path": FILE, "edits": [{"oldText": "a - b", "newText": "a + b"}]}),
        ("copilot", "edit", {"path": FILE, "old_str": "a - b", "new_str": "a + b"}),
        ("cline", "editor", {"path": FILE, "old_text": "a - b", "new_text": "a + b"}),
        ("goose", "edit", {"path": FILE, "before": "a - b", "after": "a + b"}),
        (
            "swe-agent",
            "str_replace_editor",
            {"command": "str_replace", "path": FILE, "old_str": "a - b", "new_str": "a + b"},
        ),
        (
            "vibe",
            "search_replace",
            {"filePath": FILE, "changes": [{"oldString": "a - b", "newString": "a + b"}]},
        ),
    ],
)
def test_an_edit_uses_the_agents_own_words(agent: str, name: str, arguments: dict[str, Any]) -> None:
    assert _call(agent, 2) == (name, arguments)


@pytest.mark.parametrize(
    ("agent", "creator", "shell"),
    [
        ("openhands", "file_editor", "terminal"),
        ("swe-agent", "str_replace_editor", "bash"),
        ("copilot", "create", "bash"),
    ],
)
def test_a_tool_that_only_makes_files_is_not_told_to_replace_one(
    agent: str, creator: str, shell: str
) -> None:
    steps = (ReadStep(path="a.md"), WriteStep(path="a.md", content="# A\n"), WriteStep(path="b", content="B"))
    name, arguments = _call(agent, 1, *steps)
    assert name == shell
    assert "> /workspace/a.md" in arguments["command"]
    name, arguments = _call(agent, 2, *steps)
    assert (name, arguments.get("command", "create")) == (creator, "create")


@pytest.mark.parametrize("agent", ["claude-code", "gemini-cli", "opencode", "pi", "goose"])
def test_a_tool_that_writes_files_is_told_to_replace_one(agent: str) -> None:
    steps = (ReadStep(path="a.md"), WriteStep(path="a.md", content="# A\n"))
    name, arguments = _call(agent, 1, *steps)
    assert "write" in name.casefold()
    assert arguments["content"] == "# A\n"


@pytest.mark.parametrize("agent", ["codex", "mini-swe-agent", "local-shell", "grouped"])
def test_an_agent_without_an_edit_tool_edits_with_its_shell(agent: str) -> None:
    _, arguments = _call(agent, 2)
    assert "a + b" in json.dumps(arguments)
    assert f"> {FILE}" in json.dumps(arguments)


@pytest.mark.parametrize(
    ("agent", "name", "arguments"),
    [
        ("claude-code", "Write", {"file_path": "/workspace/docs/new.md", "content": "# New\n"}),
        ("copilot", "create", {"path": "/workspace/docs/new.md", "file_text": "# New\n"}),
        (
            "swe-agent",
            "str_replace_editor",
            {"command": "create", "path": "/workspace/docs/new.md", "file_text": "# New\n"},
        ),
    ],
)
def test_a_new_file_is_written_with_the_agents_own_tool(
    agent: str, name: str, arguments: dict[str, Any]
) -> None:
    assert _call(agent, 3) == (name, arguments)


@pytest.mark.parametrize("agent", sorted(AGENT_TOOLS))
@pytest.mark.parametrize("number", range(4))
def test_every_agent_has_a_tool_for_every_step(agent: str, number: int) -> None:
    call, _ = _plan(agent, number)
    assert call is not None
    assert call.name in AGENT_TOOLS[agent][1]


@pytest.mark.parametrize("number", [4, 5, 40])
def test_the_end_is_said_as_often_as_it_is_asked_for(number: int) -> None:
    assert _plan("pi", number) == (None, "Fixed.")
    assert _call("swe-agent", number) == ("submit", {})
    assert _call("openhands", number) == ("finish", {"message": "Fixed."})


def test_an_agent_with_only_a_shell_ends_with_the_word_of_its_prompt() -> None:
    word = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    call, _ = _plan("mini-swe-agent", 4, prompt=f"Finish with `echo {word}`.")
    assert call is not None
    assert json.loads(call.arguments) == {"command": f"echo {word}"}
    assert _plan("mini-swe-agent", 4)[0] is None


def test_what_is_said_goes_out_with_the_step_behind_it() -> None:
    steps = (SayStep(text="First."), SayStep(text="Then."), ShellStep(command="ls"), SayStep(text="Bye."))
    call, text = _plan("pi", 0, *steps)
    assert call is not None
    assert text == "First.\nThen."
    assert _plan("pi", 1, *steps) == (None, "Bye.")


def test_a_raw_call_goes_out_as_it_is() -> None:
    steps = (
        RawStep(tool="no_such_tool", arguments={"x": [1]}),
        RawStep(tool="Bash", arguments_text='{"command": "rm -rf ~'),
    )
    assert _call("claude-code", 0, *steps) == ("no_such_tool", {"x": [1]})
    call, _ = _plan("claude-code", 1, *steps)
    assert call is not None
    assert call.arguments == b'{"command": "rm -rf ~'


def test_a_tool_that_means_failure_does_not_finish() -> None:
    tools = {"Bash": AGENT_TOOLS["continue"][1]["Bash"], "Exit": {"type": "object", "properties": {}}}
    request = build_request("openai-chat", tools=tools, calls=9)
    assert plan_turn(_script(), request, workspace="/workspace").turn.calls == ()


def test_a_step_that_no_tool_fits_is_said_instead() -> None:
    request = build_request("openai-chat", tools={"weather": {"type": "object"}})
    turn = plan_turn(_script(), request, workspace="/workspace").turn
    assert (turn.calls, turn.text) == ((), "No tool is offered for a step of kind shell.")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_without_tools_get_a_short_text(dialect: Dialect) -> None:
    turn = plan_turn(_script(), build_request(dialect, tools={}), workspace="/workspace").turn
    assert (turn.calls, turn.text) == ((), "Scripted run")


@pytest.mark.parametrize(
    ("dialect", "extra"),
    [
        ("openai-chat", {"tool_choice": "none"}),
        ("openai-responses", {"tool_choice": "none"}),
        ("anthropic-messages", {"tool_choice": {"type": "none"}}),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
    ],
)
def test_tools_that_must_not_be_used_are_not(dialect: Dialect, extra: dict[str, Any]) -> None:
    request = parse(dialect, {**build_body(dialect), **extra})
    assert plan_turn(_script(), request, workspace="/workspace").turn.calls == ()


def test_requests_that_want_json_get_json_of_that_form() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "score": {"type": "integer", "minimum": 1}},
        "required": ["title", "score"],
    }
    config = {"generationConfig": {"responseJsonSchema": schema}}
    request = parse("gemini", {**build_body("gemini", tools={}), **config})
    turn = plan_turn(_script(), request, workspace="/workspace").turn
    assert json.loads(turn.text) == {"title": "scripted step", "score": 1}


def test_an_agent_without_tools_gets_its_edits_as_blocks_and_only_once() -> None:
    body = build_body("openai-chat", tools={}, prompt="All changes must use a *SEARCH/REPLACE block*.")
    turn = plan_turn(_script(), parse("openai-chat", body), workspace="/workspace").turn
    first, second = turn.text.split("\ndocs/new.md\n")
    assert first == "calc.py\n```\n<<<<<<< SEARCH\na - b\n=======\na + b\n>>>>>>> REPLACE\n```\n"
    assert second == "```\n<<<<<<< SEARCH\n=======\n# New\n>>>>>>> REPLACE\n```\n"
    body["messages"].append({"role": "assistant", "content": turn.text})
    again = plan_turn(_script(), parse("openai-chat", body), workspace="/workspace").turn
    assert again.text == "Fixed."


def _say(script: Script, *messages: tuple[str, str]) -> str:
    """What an agent without tools is told after these messages."""
    body = build_body("openai-chat", tools={}, prompt="All changes must use a *SEARCH/REPLACE block*.")
    body["messages"] += [{"role": role, "content": text} for role, text in messages]
    return plan_turn(script, parse("openai-chat", body), workspace="/workspace").turn.text


def test_an_agent_without_tools_shows_a_file_before_all_of_it_is_replaced() -> None:
    script = _script(ReadStep(path="calc.py"), WriteStep(path="calc.py", content="new = 2\n"))
    asked = _say(script)
    assert asked == "Show me calc.py first."
    shown = ("user", "I added this file:\n\ncalc.py\n````py\nold = 1\n```\nodd = 3\n````\n")
    block = "calc.py\n```\n<<<<<<< SEARCH\nold = 1\n```\nodd = 3\n=======\nnew = 2\n>>>>>>> REPLACE\n```\n"
    assert _say(script, ("assistant", asked), shown) == block
    # The file looks otherwise now, and what was said stays said.
    after = ("user", "Your edits are in.\n\ncalc.py\n```\nnew = 2\n```\n")
    assert _say(script, ("assistant", asked), shown, ("assistant", block), after) == "Done."


def test_an_agent_that_does_not_show_a_file_is_asked_once() -> None:
    script = _script(ReadStep(path="calc.py"), WriteStep(path="calc.py", content="new = 2\n"))
    told = _say(script, ("assistant", "Show me calc.py first."), ("user", "No."))
    assert told == "calc.py\n```\n<<<<<<< SEARCH\n=======\nnew = 2\n>>>>>>> REPLACE\n```\n"


def test_usage_is_what_the_step_says_or_what_the_bytes_make() -> None:
    usage = ScriptedUsage(input_uncached=1000, cache_read=50, output=90_000)
    steps = (ShellStep(command="ls", usage=usage, delay_ms=7), ShellStep(command="ls"))
    request = build_request("openai-chat")
    plan = plan_turn(_script(*steps), request, workspace="/workspace")
    assert (plan.turn.usage.request_input, plan.turn.usage.output, plan.delay_ms) == (1050, 90_000, 7)
    estimated = plan_turn(_script(*steps), build_request("openai-chat", calls=1), workspace="/workspace")
    assert estimated.turn.usage.input_uncached is not None
    assert 100 < estimated.turn.usage.input_uncached < 400


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_depends_on_nothing_but_the_request(dialect: Dialect) -> None:
    script = _script()
    requests = [build_request(dialect, calls=number) for number in range(6)]
    forwards = [plan_turn(script, request, workspace="/workspace") for request in requests]
    backwards = [plan_turn(script, request, workspace="/workspace") for request in reversed(requests)]
    assert forwards == backwards[::-1]
