"""`repotrial agent`: agents that ask a model, and what they need on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, ExitCode, MachineError, UsageError
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, ScreenPart, print_error, print_json, print_json_line, print_table

app = noun("agent", "Agents: which there are, which run here, installing them.")

_MEGABYTE = 1024 * 1024

_AdaptersOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--adapters",
        metavar="DIR",
        readable=False,
        help="Adapters of your own, one TOML file each ($XDG_CONFIG_HOME/repotrial/agents unless told).",
    ),
]
_AgentNames: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="As `repotrial agent list` shows them, or agent:FILE.toml."),
]


NO_AGENT_NAMED = ErrorCode(
    "no-agent-named",
    UsageError,
    "There is nothing to install: neither a name nor --all was given.",
    hint="name agents, or say --all; `repotrial agent list` shows them",
)


@app.command(
    "list",
    short_help="List agents, and which of them are installed.",
    epilog="Example: repotrial agent list --json",
)
def list_entries(
    *, adapters: _AdaptersOption = None, cache: CacheOption = None, json: JsonFlag = False
) -> None:
    """List the agents that can be put on trial, and which of them are installed."""
    settings = build_settings(cache)
    entries = api.list_agents(settings, adapters=adapters)
    if json:
        print_json(entries)
        return
    rows: list[list[ScreenPart]] = [
        [
            (entry.name, "bold"),
            entry.version,
            entry.dialect,
            ("yes", "green") if entry.is_installed else ("no", "yellow"),
            "-" if entry.size_bytes is None else f"{entry.size_bytes / _MEGABYTE:.0f}",
            entry.problem or ("" if entry.source == "built in" else entry.source),
        ]
        for entry in entries
    ]
    print_table(Screen(), ("agent", "version", "dialect", "installed", "MB", "note"), rows)


@app.command(
    "check",
    short_help="Find out whether agents can run on this machine.",
    epilog="Example: repotrial agent check codex pi",
)
def check(
    names: _AgentNames, *, adapters: _AdaptersOption = None, cache: CacheOption = None, json: JsonFlag = False
) -> None:
    """Find out, by trying, whether agents can be installed and run on this machine.

    Exit codes: 0 all can, 3 some cannot; what is missing is listed with its remedy. With --json, several
    names give a list.
    """
    settings = build_settings(cache)
    checks = []
    for name in dict.fromkeys(names):
        checks.append(api.check_named_agent(name, settings, adapters=adapters))
        if not json:
            _print_check(checks[-1])
    if json:
        print_json(checks if len(checks) > 1 else checks[0])
    if not all(found.can_run for found in checks):
        raise typer.Exit(ExitCode.MACHINE_CANNOT)


@app.command(
    "install",
    short_help="Install agents, once; runs need no package index.",
    epilog="Example: repotrial agent install codex pi",
)
def install(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="As `repotrial agent list` shows them, or agent:FILE.toml."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All agents that this machine can install.")] = False,
    adapters: _AdaptersOption = None,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Install agents into the cache, once; runs find them there and need no index.

    Exit codes: 0 all are there, 3 some could not be installed; the others are.
    """
    settings = build_settings(cache)
    wanted = [entry.name for entry in api.list_agents(settings, adapters=adapters)] if every else names or []
    if not wanted:
        raise NO_AGENT_NAMED.error("expected the name of an agent, found none")
    api.verify_agent_names(wanted, settings, adapters=adapters)  # before the first is installed
    screen, failed = Screen(), False
    for name in dict.fromkeys(wanted):
        started = time.monotonic()
        if not json:
            Screen(to_stderr=True).line((f"{name}: installing …", "dim"))
        try:
            done = api.install_named_agent(name, settings, adapters=adapters)
        except MachineError as error:
            failed = True
            if json:
                print_json_line({"name": name, "error": error.to_dict()})
            else:
                print_error(error, where=name)
            continue
        if json:
            print_json_line(done)
            continue
        size = 0 if done.tree is None else done.tree.size_bytes / _MEGABYTE
        screen.line(
            (f"{done.name} {done.version}", "bold"),
            f"  {size:.0f} MB in {time.monotonic() - started:.1f} s",
        )
    if failed:
        raise typer.Exit(ExitCode.MACHINE_CANNOT)


def _print_check(found: api.AgentCheck) -> None:
    screen = Screen()
    verdict = ("can run here", "bold green") if found.can_run else ("cannot run here", "bold red")
    if found.can_run and not found.is_installed:
        verdict = ("can run here once it is installed", "bold green")
    screen.line((f"{found.name} {found.version}: ", "bold"), verdict)
    for need in found.needs:
        mark = ("yes  ", "green") if need.is_met else ("no   ", "yellow" if found.can_run else "red")
        screen.line(f"  {need.need:<10}", mark, need.found)
        if need.remedy and not need.is_met:
            screen.line((f"      fix: {need.remedy}", "dim"))
