"""Pages of the viewer, each from one request: read, choose, render. Nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial.report import EVENT_CLASSES, render_template
from repotrial.trace import TimelineRow
from repotrial.viewer._addresses import (
    WORDS,
    RunQuery,
    read_list_text,
    write_list,
    write_run,
    write_sorting,
)
from repotrial.viewer._catalog import ListedRun, ListQuery
from repotrial.viewer._places import FoundPilot
from repotrial.viewer._run_view import PAGE_EVENTS, build_detail, build_event_page, find_last_page
from repotrial.viewer._state import ViewerState
from repotrial.viewer._trace_index import TraceIndex

LIST_RUNS: Final = 100
_US_PER_SECOND: Final = 1_000_000
_MINUTE: Final = 60
_HOUR: Final = 3600
_MOST_ALERTS: Final = 5


def render_page(state: ViewerState, template: str, here: str, **values: object) -> str:
    """A page in its frame."""
    return render_template(
        f"{template}.html.j2",
        package="repotrial.viewer",
        here=here,
        place=state.root.name or str(state.root),
        waiting=state.count_waiting(),
        trouble=state.trouble,
        form_key=state.guard.form_key,
        operator=state.operator,
        moment=_show_moment,
        lasting=_show_lasting,
        money=_show_money,
        points=_show_points,
        **values,
    )


def render_list(state: ViewerState, query: ListQuery, first: int) -> str:
    """The list of runs, a page of it."""
    catalog = state.catalog
    rows, total = catalog.find(query, first=first, most=LIST_RUNS)
    written = write_list(query)
    is_filtered = query != ListQuery(sort=query.sort, is_descending=query.is_descending)
    suffix = RunQuery(list=written.removeprefix("?"))
    return render_page(
        state,
        "list",
        "runs",
        query=query,
        rows=rows,
        total=total,
        every=catalog.count(),
        due=catalog.due,
        first=first,
        is_filtered=is_filtered,
        has_withheld=any(not pilot.is_over for pilot in state.found.pilots),
        sorted_by=f"{WORDS.get(query.sort, query.sort)}, {'last' if query.is_descending else 'first'} first"
        if query.sort == "started_at_us"
        else f"{WORDS.get(query.sort, query.sort)}, {'descending' if query.is_descending else 'ascending'}, "
        "runs without a value last",
        sorting=write_sorting(query),
        suffix=write_run("", suffix).removeprefix("/run/"),
        agents=catalog.list_values("agent"),
        contracts=catalog.list_values("contract"),
        causes=catalog.list_values("cause"),
        preceding="/" + write_list(query, first=max(0, first - LIST_RUNS)) if first else None,
        following="/" + write_list(query, first=first + LIST_RUNS) if first + LIST_RUNS < total else None,
    )


def render_run(state: ViewerState, row: ListedRun, query: RunQuery, told: str = "") -> str:
    """One run: who and what, what it asks, and a page of its events."""
    run = Path(row.path)
    index = state.open_index(run)
    page = build_event_page(
        index,
        run,
        chosen=query.chosen,
        first=query.first,
        text=query.text,
        is_conversation=query.view == "conversation",
    )
    detail = None if query.event is None else build_detail(index, run, query.event)
    last = None if page.listed is None else find_last_page(page.listed)
    return render_page(
        state,
        "run",
        "runs",
        row=row,
        name=run.name,
        facts=_list_facts(row),
        alerts=_list_alerts(index) if row.state == "waiting" else [],
        page=page,
        detail=detail,
        last=last,
        view=query.view,
        text=query.text,
        chosen=query.chosen,
        classes=_list_classes(row.key, query, index),
        kept=[pair for pair in (("view", query.view), ("list", query.list)) if pair[1] not in {"", "events"}],
        is_followed=page.following is None and not query.text,
        address=_Addresses(row.key, query),
        told=told,
        list_query=f"?{query.list}" if query.list else "",
        **_find_neighbors(state, row, query),
    )


class _Addresses:
    """Addresses of this run's views, for the template."""

    def __init__(self, key: str, query: RunQuery) -> None:
        self._key = key
        self._query = query

    def __call__(self, *, view: str, at: int | None = -1, event: int | None = None) -> str:
        """Another view or page of this run.

        Args:
            view: Which.
            at: Where the page begins: -1 as now, None at the beginning.
            event: The event to open; if the page is to begin there, it is looked for among all events.
        """
        query = self._query
        if event is not None and at == event:
            first = event // PAGE_EVENTS * PAGE_EVENTS
            return write_run(self._key, RunQuery(first=first, event=event, list=query.list)) + f"#e{event}"
        if view != query.view:
            return write_run(self._key, RunQuery(view=view, list=query.list))
        first = query.first if at == -1 else at or 0
        return write_run(self._key, msgspec.structs.replace(query, first=first, event=event))


def _list_classes(key: str, query: RunQuery, index: TraceIndex) -> list[dict[str, object]]:
    counts = index.count_types()
    listed = []
    for name, types in EVENT_CLASSES.items():
        count = sum(counts.get(each, 0) for each in types)
        is_on = name in query.chosen
        chosen = tuple(each for each in query.chosen if each != name) if is_on else (*query.chosen, name)
        link = write_run(key, RunQuery(chosen=chosen, list=query.list))
        if count or is_on:
            listed.append({"name": name, "count": count, "is_on": is_on, "link": link})
    return listed


def _list_alerts(index: TraceIndex) -> list[TimelineRow]:
    """What made the run wait: the last things that monitors saw and did."""
    return index.list_chosen(index.list_of({"monitor-alert", "intervention"})[-_MOST_ALERTS:])


def _list_facts(row: ListedRun) -> list[tuple[str, object]]:
    return [
        ("Run", row.run_id),
        ("Directory", f"{row.place}/{row.path.rpartition('/')[2]}".removeprefix("./")),
        ("Model", row.model),
        ("State", row.state),
        ("Ended by", row.cause),
        ("Started", _show_moment(row.started_at_us)),
        ("Time", _show_lasting(row.wall_seconds)),
        ("USD", _show_money(row.cost_usd)),
        ("Tokens", None if row.tokens is None else f"{row.tokens:,}"),
        ("Score", None if row.score is None else f"{row.score:.3g}"),
        ("Verdict", "withheld in lists until the pilot ends" if row.is_withheld else None),
    ]


def _find_neighbors(state: ViewerState, row: ListedRun, query: RunQuery) -> dict[str, Any]:
    place, keys = state.catalog.find_place(read_list_text(query.list), row.key)
    kept = RunQuery(view=query.view, chosen=query.chosen, list=query.list)
    return {
        "position": place,
        "positions": len(keys),
        "before": write_run(keys[place - 1], kept) if place > 0 else "",
        "after": write_run(keys[place + 1], kept) if 0 <= place < len(keys) - 1 else "",
    }


def render_pilots(state: ViewerState) -> str:
    """The list of pilots."""
    counts = [
        (pilot, sum(run.pilot == pilot.key for run in state.found.runs)) for pilot in state.found.pilots
    ]
    return render_page(state, "pilots", "pilots", pilots=counts)


def render_pilot(state: ViewerState, pilot: FoundPilot) -> str:
    """How a pilot stands: progress, spend, causes, and the always-valid band alone (P29)."""
    return render_page(
        state,
        "pilot",
        "pilots",
        pilot=pilot,
        status=state.ports.load_status(pilot.path),
        queue=state.ports.list_review(pilot.path, None).open,
    )


def _show_moment(value: int | None) -> str:
    if value is None:
        return ""
    return f"{datetime.fromtimestamp(value // _US_PER_SECOND, tz=UTC):%Y-%m-%d %H:%M:%S}"


def _show_lasting(value: float | None) -> str:
    if value is None:
        return ""
    if value < _MINUTE:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), _MINUTE)
    return f"{minutes} min {seconds:02} s" if value < _HOUR else f"{minutes // 60} h {minutes % 60:02} min"


def _show_money(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _show_points(value: float) -> str:
    return f"{value * 100:+.1f}"
