"""`repotrial contract complexity`: proxies for how hard a repository is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.words import Level
from repotrial.cli._batch import BatchVerdict, work_through
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import ContractDirectories, JsonFlag, LevelOption
from repotrial.cli._output import Screen, counted
from repotrial.cli._trace import find_key_file


def complexity(
    directories: ContractDirectories,
    *,
    untimed: Annotated[
        bool, typer.Option("--untimed", help="Do not run the checks to time them; nothing is executed.")
    ] = False,
    level: LevelOption = Level.L3,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Measure a contract's repository, and write complexity.json beside the contract.

    The figures are proxies: they feed the strata of a pilot and no verdict. The file is not part of the
    contract's version id.
    """
    machine, key = build_settings(cache), find_key_file()

    def measure(directory: Path) -> api.MeasuredContract:
        return api.measure_contract(directory, machine, key_file=key, level=level, is_timed=not untimed)

    work_through(
        directories,
        measure,
        judge=lambda _: BatchVerdict("measured", holds=True),
        show=_show,
        noun="contract",
        json=json,
    )


def _show(screen: Screen, found: api.MeasuredContract) -> None:
    from repotrial._core.absence import NotComputable

    measured = found.complexity
    screen.line((f"{found.directory}", "bold"), ": proxies, not difficulty")
    screen.line(f"  {measured.tokens} words and signs")
    for name, files in measured.files.items():
        screen.line(f"  {name}: {counted(files, 'file')}, {counted(measured.lines[name], 'line')}")
    for name, graph in (("imports", measured.imports), ("dependencies", measured.dependencies)):
        if isinstance(graph, NotComputable):
            screen.line(f"  {name}: not computable: {graph.reason}")
        else:
            screen.line(f"  {name}: {graph.nodes} nodes, {_say(graph.edges)} edges, {_say(graph.depth)} deep")
    seconds = measured.test_us
    screen.line(
        f"  checks: {seconds / 1e6:.2f} s"
        if isinstance(seconds, int)
        else f"  checks: not timed: {seconds.reason}"
    )


def _say(count: object) -> str:
    return str(count) if isinstance(count, int) else "unknown"
