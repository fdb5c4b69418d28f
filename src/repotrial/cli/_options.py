"""Options and arguments that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from repotrial._core.words import OFFERED_LEVELS, Level

# `readable=False`: the parser would refuse the whole command for one directory that cannot be read.
ContractDirectory: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="DIR", readable=False, help="The contract directory (it holds contract.toml)."),
]
ContractDirectories: TypeAlias = Annotated[
    list[Path],
    typer.Argument(metavar="DIR...", readable=False, help="Contract directories (each holds contract.toml)."),
]
RunDirectory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN_DIR", readable=False, help="The run directory (it holds trace.jsonl).")
]
RunDirectories: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN_DIR...",
        readable=False,
        help="Run directories (each holds trace.jsonl), or directories of runs.",
    ),
]
JsonFlag: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text for people.")
]
LookFlag: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--look",
        help="Of a pilot that is under way: show complete tasks by arm. In stage 3 only; it spends alpha, "
        "and is a deviation unless the moment is registered.",
    ),
]
LevelOption: TypeAlias = Annotated[
    Level, typer.Option("--level", metavar=f"<{'|'.join(OFFERED_LEVELS)}>", help="The isolation level.")
]

PricesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="CSV",
        readable=False,
        help="A price book in place of ours; none: everything in abstract units, budgets included.",
    ),
]


def noun(name: str, summary: str, *, epilog: str | None = None) -> typer.Typer:
    """A group of verbs."""
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
    # Without markup, help is plain text: it pipes, greps and needs no renderer.
    return typer.Typer(
        name=name,
        help=summary,
        epilog=epilog,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=settings,
    )
