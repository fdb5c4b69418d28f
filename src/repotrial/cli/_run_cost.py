"""`repotrial run cost`: what runs cost, in four terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial.cli._options import JsonFlag, RunDirectories

if TYPE_CHECKING:
    from repotrial.api import RunCost
    from repotrial.cli._output import Screen

__all__ = ["cost"]

_TERMS = (("lm", "models"), ("exec", "execution"), ("human", "people"), ("overhead", "overhead"))


def cost(
    directories: RunDirectories,
    *,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            metavar="CSV",
            readable=False,
            help="A price book in place of ours.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """State what runs cost: models, execution, people and overhead, from what the record metered."""
    from repotrial import api
    from repotrial.cli._batch import Verdict, work_through

    work_through(
        directories,
        lambda directory: api.price_run(directory, prices=prices),
        judge=lambda _: Verdict("priced", holds=True),
        show=_show,
        noun=None,
        json=json,
    )


def _show(screen: Screen, result: RunCost) -> None:
    from repotrial.cli._output import counted

    screen.line((result.directory, "bold"), f": {counted(result.exchanges, 'exchange')} with models")
    for name, word in (*_TERMS, ("total", "total")):
        term = getattr(result.statement, name)
        text = f"{term.value} {term.unit}" if hasattr(term, "value") else f"unknown: {term.reason}"
        screen.line(f"  {word:<10}{text}")
    if not result.is_booked:
        screen.line(("  priced by another book than the one that was in force", "yellow"))
