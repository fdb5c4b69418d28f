"""`repotrial run why`: on one screen why a run ended as it did."""

from __future__ import annotations

from repotrial import api
from repotrial.cli._options import JsonFlag, RunDirectory
from repotrial.cli._output import Screen, find_style, print_json

_WORD_COLUMNS = 12
_MOST_LINES = 20


def why(directory: RunDirectory, *, json: JsonFlag = False) -> None:
    """Say why a run ended as it did: the verdict's reasons, the end, what led to it, what was spent.

    Computed anew from the evidence. Every line names the event that it rests on.
    """
    found = api.explain_run(api.judge_run(directory))
    if json:
        print_json(found)
        return
    screen = Screen()
    screen.line((found.status, find_style(found.status)), f"  {found.contract or '?'}  {found.agent or '?'}")
    for reason in found.reasons[:_MOST_LINES]:
        place = "" if reason.seq is None else f"  event {reason.seq}"
        screen.line((f"{reason.word:<{_WORD_COLUMNS}}", "bold"), reason.text, (place, "dim"))
    left_out = len(found.reasons) - _MOST_LINES
    if left_out > 0:
        screen.line((f"and {left_out} more lines: see --json", "dim"))
    screen.line((f"more: {found.next}", "dim"))
