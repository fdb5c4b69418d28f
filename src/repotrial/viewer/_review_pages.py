"""Review in the browser: the queue of a person, one case after the other, a label for each (B14)."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlencode

from aiohttp import web

from repotrial.conduct import GivenLabel
from repotrial.score import load_taxonomy
from repotrial.viewer._addresses import read_number
from repotrial.viewer._pages import render_page
from repotrial.viewer._places import FoundPilot
from repotrial.viewer._state import ViewerState

_MOST_NAME: Final = 200
_VERDICTS: Final[dict[str, Literal["correct", "incorrect", "unclear"]]] = {
    "correct": "correct",
    "incorrect": "incorrect",
    "unclear": "unclear",
}


class ReviewDesk:
    """What reviewers see and say; names of agents and models are taken out before they see it."""

    def __init__(self, state: ViewerState) -> None:
        self._state = state
        self._seen = set[tuple[str, str, str]]()
        """Cases whose verdict was shown to a person since the start: their labels say so."""

    def render_queue(self, pilot: FoundPilot, reviewer: str, *, is_whole: bool) -> str:
        """What a person has not looked at yet, or all cases."""
        queue = self._state.ports.list_review(pilot.path, None if is_whole else reviewer)
        return render_page(
            self._state,
            "review",
            "pilots",
            pilot=pilot,
            queue=queue,
            reviewer=reviewer,
            is_whole=is_whole,
            query=_write(reviewer=reviewer),
            focused=_write(reviewer=reviewer, focus="1"),
        )

    def render_case(self, pilot: FoundPilot, name: str, reviewer: str, request: web.Request) -> str:
        """One case, and the form of its label."""
        with_verdict = request.query.get("verdict") == "1"
        is_focused = request.query.get("focus") == "1"
        case = self._state.ports.show_review(pilot.path, name, with_verdict)
        if with_verdict:
            self._seen.add((pilot.key, name, reviewer))
        open_cases = [one.case for one in self._state.ports.list_review(pilot.path, reviewer).cases]
        before, after = _find_neighbors(open_cases, name)
        place = f"/pilot/{pilot.key}/review"
        kept = _write(reviewer=reviewer, focus="1" if is_focused else "")
        return render_page(
            self._state,
            "case",
            "pilots",
            pilot=pilot,
            case=case,
            reviewer=reviewer,
            left=len(open_cases),
            is_open=name in open_cases,
            is_focused=is_focused,
            modes=load_taxonomy(),
            queue=place + _write(reviewer=reviewer),
            here_path=f"{place}/{name}",
            toggle=f"{place}/{name}" + _write(reviewer=reviewer, focus="" if is_focused else "1"),
            unblind=f"{place}/{name}"
            + _write(reviewer=reviewer, focus="1" if is_focused else "", verdict="1"),
            before=f"{place}/{before}{kept}" if before else "",
            after=f"{place}/{after}{kept}" if after else "",
        )

    def write(self, pilot: FoundPilot, name: str, form: dict[str, str]) -> str:
        """Hand a label on; where to go next.

        Raises:
            LABEL_REFUSED: it does not fit the pilot.
        """
        reviewer = form.get("reviewer", "").strip()[:_MOST_NAME]
        verdict = _VERDICTS.get(form.get("verdict", ""))
        minutes = read_number(form.get("minutes", ""))
        if verdict is None or minutes is None:
            raise web.HTTPBadRequest(text="A label is correct, incorrect or unclear, with whole minutes.\n")
        given = GivenLabel(
            case=name,
            verdict=verdict,
            failure_mode=form.get("failure_mode") or None,
            reviewer=reviewer,
            reason=form.get("reason", "").strip(),
            minutes=minutes,
            is_verdict_seen=(pilot.key, name, reviewer) in self._seen,
        )
        self._state.ports.write_label(pilot.path, given)
        rest = self._state.ports.list_review(pilot.path, reviewer).cases
        place = f"/pilot/{pilot.key}/review"
        focus = "1" if form.get("focus") else ""
        if rest and focus:
            return f"{place}/{rest[0].case}" + _write(reviewer=reviewer, focus=focus)
        return place + _write(reviewer=reviewer)

    def read_reviewer(self, request: web.Request) -> str:
        """Who reviews: as the address says, else the operator."""
        return request.query.get("reviewer", "").strip()[:_MOST_NAME] or self._state.operator


def _find_neighbors(cases: list[str], name: str) -> tuple[str, str]:
    if name not in cases:
        return "", cases[0] if cases else ""
    place = cases.index(name)
    return cases[place - 1] if place else "", cases[place + 1] if place + 1 < len(cases) else ""


def _write(**values: str) -> str:
    found = urlencode({name: value for name, value in values.items() if value})
    return f"?{found}" if found else ""
