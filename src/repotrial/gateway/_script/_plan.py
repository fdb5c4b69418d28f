"""The next turn of a script: a function of the request alone, so that retries and parallel runs are safe."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Final

import msgspec

from repotrial.cost import TokenUsage
from repotrial.gateway._script._arguments import Values, find_call
from repotrial.gateway._script._script import (
    Act,
    EditStep,
    FinishStep,
    RawStep,
    ReadStep,
    SayStep,
    Script,
    ScriptedUsage,
    ShellStep,
    WriteStep,
)
from repotrial.gateway._script._text import plan_text
from repotrial.wire import ToolCall, Turn, WireRequest, is_tool_use_forbidden


def build_read_command(path: str) -> str:
    return f"cat {shlex.quote(path)}"


def build_write_command(path: str, content: str) -> str:
    """One line that writes a file, and its directory if need be."""
    target = shlex.quote(path)
    parent = PurePosixPath(path).parent
    make = "" if str(parent) in {".", "/"} else f"mkdir -p {shlex.quote(str(parent))} && "
    return f"{make}{_print(content)} > {target}"


def build_edit_command(path: str, old: str, new: str) -> str:
    """One line that replaces the first place where `old` stands, and fails where it stands nowhere."""
    target = shlex.quote(path)
    return (
        f"old=$({_print(old)}; printf .) && old=${{old%.}}"
        f" && new=$({_print(new)}; printf .) && new=${{new%.}}"
        # A substitution drops line ends; the dot keeps them.
        f" && all=$(cat {target} && printf .) && all=${{all%.}}"
        ' && case $all in *"$old"*)'
        f' printf %s%s%s "${{all%%"$old"*}}" "$new" "${{all#*"$old"}}" > {target} ;;'
        f" *) echo 'the text to replace is not there' >&2; false ;; esac"
    )


def _print(text: str) -> str:
    """A command that prints exactly this; line ends stand between arguments, so that it stays one line."""
    *lines, last = text.split("\n")
    printed = []
    if lines:
        printed.append("printf '%s\\n' " + " ".join(shlex.quote(line) for line in lines))
    if last or not lines:
        printed.append(f"printf %s {shlex.quote(last)}")
    return printed[0] if len(printed) == 1 else "{ " + "; ".join(printed) + "; }"


_SUBMIT: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Agents with nothing but a shell end when a command prints the word that their prompt names."""

_BYTES_PER_TOKEN: Final = 4

_ARGUMENTS: Final = msgspec.json.Encoder(decimal_format="number")
"""Fractions of a script are decimals, and numbers on the wire."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to answer, and when."""

    turn: Turn
    delay_ms: int


class _Entry(msgspec.Struct, frozen=True):
    step: Act
    said: str


def plan_turn(script: Script, request: WireRequest, *, workspace: str) -> Plan:
    """The turn that follows on what the request already holds.

    Args:
        script: What is to be done.
        request: Its calls so far tell how far the script has come.
        workspace: Where relative paths start, as the agent sees it.
    """
    number = len(request.calls)
    if not request.tools or is_tool_use_forbidden(request):
        text = plan_text(script, request)
        return _build(script, request, FinishStep(), text=text, calls=())
    entries = _list_entries(script)
    entry = entries[min(number, len(entries) - 1)]
    if isinstance(entry.step, FinishStep):
        call = _plan_finish(entry.step, request)
        text = entry.step.text if call is None else entry.said
    else:
        is_known = _is_known(entry.step, [each.step for each in entries[:number]])
        call = _plan_call(entry.step, request, workspace, is_known=is_known)
        text = (
            entry.said if call is not None else f"No tool is offered for a step of kind {_kind(entry.step)}."
        )
    return _build(script, request, entry.step, text=text, calls=() if call is None else (call,))


def _list_entries(script: Script) -> list[_Entry]:
    """Steps that make a turn, each with what is said before it; the last one finishes."""
    entries: list[_Entry] = []
    said: list[str] = []
    for step in script.steps:
        if isinstance(step, SayStep):
            said.append(step.text)
        else:
            entries.append(_Entry(step, "\n".join(said)))
            said = []
    if not entries or not isinstance(entries[-1].step, FinishStep):
        last = FinishStep(text="\n".join(said)) if said else FinishStep()
        entries.append(_Entry(last, ""))
    return entries


def _is_known(step: Act, before: list[Act]) -> bool:
    """Whether the file of a step is there: an earlier one has read, changed or written it."""
    with_path = (ReadStep, EditStep, WriteStep)
    paths = {each.path for each in before if isinstance(each, with_path)}
    return isinstance(step, with_path) and step.path in paths


def _plan_call(step: Act, request: WireRequest, workspace: str, *, is_known: bool) -> ToolCall | None:
    tools = request.tools
    match step:
        case RawStep():
            text = step.arguments_text
            arguments = _ARGUMENTS.encode(step.arguments) if text is None else text.encode()
            return ToolCall(id=None, name=step.tool, arguments=arguments)
        case ShellStep():
            return _call_shell(request, step.command)
        case ReadStep():
            path = _locate(step.path, workspace)
            values: Values = {"path": (path,), "mode": ("view", "read", "open")}
            return find_call(tools, "read", values) or _call_shell(request, build_read_command(path))
        case EditStep():
            path = _locate(step.path, workspace)
            modes = ("str_replace", "replace", "edit")
            values = {"path": (path,), "old": (step.old,), "new": (step.new,), "mode": modes}
            return find_call(tools, "edit", values) or _call_shell(
                request, build_edit_command(path, step.old, step.new)
            )
        case WriteStep():
            path = _locate(step.path, workspace)
            values = {"path": (path,), "content": (step.content,), "mode": ("write", "overwrite")}
            call = find_call(tools, "write", values)
            if call is None and not is_known:
                # What makes files refuses to replace one.
                call = find_call(tools, "create", {**values, "mode": ("create",)})
            return call or _call_shell(request, build_write_command(path, step.content))
        case FinishStep():
            return _plan_finish(step, request)


def _call_shell(request: WireRequest, command: str) -> ToolCall | None:
    return find_call(request.tools, "shell", {"command": (command,)})


def _plan_finish(step: FinishStep, request: WireRequest) -> ToolCall | None:
    call = find_call(request.tools, "finish", {"text": (step.text,)})
    if call is not None:
        return call
    if any(_SUBMIT.encode() in message.data for message in request.messages):
        return _call_shell(request, f"echo {_SUBMIT}")
    return None


def _locate(path: str, workspace: str) -> str:
    # Every agent takes absolute paths, some take nothing else.
    return str(PurePosixPath(workspace) / path)


def _kind(step: Act) -> str:
    return str(type(step).__struct_config__.tag)


def _build(
    script: Script, request: WireRequest, step: Act, *, text: str, calls: tuple[ToolCall, ...]
) -> Plan:
    usage = _count(step.usage or ScriptedUsage(), request, text, calls)
    turn = Turn(number=len(request.calls), text=text, calls=calls, usage=usage, model=script.model)
    return Plan(turn=turn, delay_ms=step.delay_ms)


def _count(given: ScriptedUsage, request: WireRequest, text: str, calls: tuple[ToolCall, ...]) -> TokenUsage:
    answered = len(text.encode()) + sum(len(call.name) + len(call.arguments) for call in calls)
    uncached = estimate_input(request) if given.input_uncached is None else given.input_uncached
    cached = given.cache_read + given.cache_write_5m + given.cache_write_1h
    return TokenUsage(
        input_uncached=uncached,
        cache_read=given.cache_read,
        cache_write_5m=given.cache_write_5m,
        cache_write_1h=given.cache_write_1h,
        output=_tokens(answered) + given.reasoning if given.output is None else given.output,
        reasoning=given.reasoning,
        request_input=uncached + cached,
    )


def estimate_input(request: WireRequest) -> int:
    """Tokens that a request would take, made from its bytes."""
    return _tokens(len(request.envelope) + sum(len(message.data) for message in request.messages))


def _tokens(size: int) -> int:
    return max(1, -(-size // _BYTES_PER_TOKEN))
