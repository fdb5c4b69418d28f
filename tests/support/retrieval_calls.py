"""Single tool calls, and what is read from them."""

from __future__ import annotations

import json
from typing import Any

from repotrial.retrieval import load_retrieval_tools
from repotrial.retrieval._extract import Extractor, Retrieved, TracedCall
from repotrial.retrieval._places import build_names


def extract(
    name: str,
    arguments: Any,
    output: Any = "",
    *,
    is_error: bool = False,
    directory: str | None = "/workspace",
    truth: tuple[str, ...] = (),
) -> list[tuple[str, list[str]]]:
    """Category and files of each event of a call."""
    names = build_names(roots=(directory,), truth=truth)
    found = _run(name, arguments, output, is_error=is_error, directory=directory, truth=truth)
    return [
        (each.category, list(dict.fromkeys(names.name(place) for place in each.places))) for each in found
    ]


def _run(
    name: str, arguments: Any, output: Any, *, is_error: bool, directory: str | None, truth: tuple[str, ...]
) -> tuple[Retrieved, ...]:
    text = output if isinstance(output, str) else json.dumps(output)
    call = TracedCall(name=name, arguments=arguments, outputs=(text,), is_error=is_error)
    names = build_names(roots=(directory,), truth=truth)
    return Extractor(load_retrieval_tools(), names, directory).extract(call)


def lines_of(name: str, arguments: Any, output: str = "") -> list[tuple[str, int | None, int | None]]:
    found = _run(name, arguments, output, is_error=False, directory="/workspace", truth=())
    return [(place.path, place.first, place.last) for each in found for place in each.places]
