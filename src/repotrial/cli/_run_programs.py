"""`repotrial run show --programs`: what ran, as a tree."""

from __future__ import annotations

from pathlib import Path

from repotrial import api
from repotrial.cli._output import Screen, ScreenPart, counted, print_json

_MOST_COLUMNS = 100
_MOST_DEPTH = 12
_BASES = {
    "words": "",
    "time": "  (its programs by the time at which they started)",
    "ambiguous": "  (ambiguous: other calls were under way)",
    "none": "",
}


def show_programs(screen: Screen, directory: Path, *, json: bool) -> None:
    """Print every call with the programs that ran for it, then the agent's own."""
    view = api.show_programs(directory)
    if json:
        print_json(view)
        return
    if not view.is_witnessed and not view.total:
        Screen(to_stderr=True).line("no programs: this run was recorded without a witness of programs")
        return
    width = min(screen.width, _MOST_COLUMNS) if screen.is_terminal else _MOST_COLUMNS
    for call in view.calls:
        head = f"{call.seq:>6} {_say(call.wall_us)} "
        style = "bold red" if call.has_failed else "bold"
        told = f"{call.tool}: {call.text}" if call.text else call.tool
        words = _cut(told, width - len(head) - len(call.ended) - 2)
        ended: list[ScreenPart] = ["  ", (call.ended, style)] if call.ended else []
        screen.line((head, "dim"), (words, "bold"), *ended)
        if call.basis in {"time", "ambiguous"}:
            screen.line((" " * len(head) + _BASES[call.basis].strip(), "dim"))
        _print_lines(screen, call.lines, width)
        _print_left_out(screen, call.left_out)
    if view.own:
        screen.line(("       the agent's own program, and what belongs to no call:", "dim"))
        _print_lines(screen, view.own, width)
        _print_left_out(screen, view.left_out)
    for group in view.folded:
        name = group.exe or "other files"
        failed = f", {group.failed} failed" if group.failed else ""
        screen.line(("       beyond the bound: ", "dim"), f"{name} x {group.started}{failed}")
    screen.line((f"{counted(view.total, 'program')} on record, {counted(len(view.calls), 'call')}", "bold"))
    for name, reason in view.blind:
        screen.line(("not seen: ", "yellow"), f"{name} ({reason})")


def _print_lines(screen: Screen, lines: tuple[api.ProgramLine, ...], width: int) -> None:
    for line in lines:
        head = f"{line.seq:>6} {_say(line.wall_us)} "
        indent = "  " * min(line.depth + 1, _MOST_DEPTH)
        words = _cut(line.words, width - len(head) - len(indent) - len(line.ended) - 2)
        ended: ScreenPart = (line.ended, "red" if line.failed else "dim")
        screen.line((head, "dim"), f"{indent}{words}", "  ", ended)


def _print_left_out(screen: Screen, count: int) -> None:
    if count:
        screen.line((f"       and {counted(count, 'more line')}; --json has the same bound", "dim"))


def _say(wall_us: int | None) -> str:
    return "        ?" if wall_us is None else f"{wall_us / 1_000_000:>8.3f}s"


def _cut(text: str, room: int) -> str:
    room = max(room, 20)
    return text if len(text) <= room else text[: room - 1] + "…"
