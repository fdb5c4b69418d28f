"""Every state of a page stands in its address, and is read back from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from repotrial.viewer._catalog import COLUMNS, ListQuery

_MOST_CHARACTERS: Final = 500
_NAMES: Final = {"q": "text", "status": "status", "state": "state", "agent": "agent", "contract": "contract",
                 "cause": "cause", "pilot": "pilot", "sort": "sort"}  # fmt: skip
WORDS: Final = {
    "started_at_us": "start", "wall_seconds": "time", "cost_usd": "cost", "replicate": "replicate",
    "status": "verdict", "cause": "what ended them",
}  # fmt: skip
"""Columns as people call them, where that differs."""


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What of a run is shown."""

    view: str = "events"
    first: int = 0
    """Where the page begins; a number of an event is rounded down to the page that holds it."""
    event: int | None = None
    """The event that is open."""
    text: str = ""
    chosen: tuple[str, ...] = ()
    """Classes of events; none for all."""
    list: str = ""
    """The list that the reader came from, as its address has it."""


def read_list(query: Mapping[str, str]) -> ListQuery:
    """The list that an address asks for; what it does not understand is left aside."""
    values = {field: query.get(name, "")[:_MOST_CHARACTERS] for name, field in _NAMES.items()}
    if values["sort"] not in COLUMNS:
        values["sort"] = "started_at_us"
    return ListQuery(**values, is_descending=query.get("way") != "up")


def read_list_text(text: str) -> ListQuery:
    """The same from the text that a run's address carries."""
    return read_list(dict(parse_qsl(text.removeprefix("?")[: 4 * _MOST_CHARACTERS])))


def write_list(query: ListQuery, **more: object) -> str:
    """A list as the end of an address; empty for the plain one."""
    values = {name: getattr(query, field) for name, field in _NAMES.items()}
    if values["sort"] == "started_at_us":
        values["sort"] = ""
    values["way"] = "" if query.is_descending else "up"
    return _join((name, value) for name, value in {**values, **more}.items() if value)


def write_sorting(query: ListQuery) -> dict[str, str]:
    """For each column the address of the list sorted by it; by the same again, the other way round."""
    return {
        column: "/"
        + write_list(
            msgspec.structs.replace(
                query,
                sort=column,
                is_descending=not query.is_descending if query.sort == column else column == "started_at_us",
            )
        )
        for column in COLUMNS
    }


def read_run_query(query: Mapping[str, str], page: int) -> RunQuery:
    """What of a run an address asks for."""
    at = read_number(query.get("at", "")) or 0
    text = query.get("find", "")[:_MOST_CHARACTERS]
    return RunQuery(
        view="conversation" if query.get("view") == "conversation" else "events",
        first=at if text else at // page * page,
        event=read_number(query.get("event", "")),
        text=text,
        chosen=tuple(name for name in query.get("class", "").split(",") if name),
        list=query.get("list", "")[: 4 * _MOST_CHARACTERS],
    )


def write_run(key: str, query: RunQuery) -> str:
    """The address of a view of a run."""
    values = {
        "view": "" if query.view == "events" else query.view,
        "at": query.first,
        "event": "" if query.event is None else str(query.event),
        "find": query.text,
        "class": ",".join(query.chosen),
        "list": query.list,
    }
    return f"/run/{key}" + _join((name, value) for name, value in values.items() if value)


def read_number(text: str) -> int | None:
    """A number of an event; None if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None  # noqa: PLR2004


def _join(pairs: Iterable[tuple[str, object]]) -> str:
    found = urlencode(list(pairs), errors="replace")
    return f"?{found}" if found else ""
