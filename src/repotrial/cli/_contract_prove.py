"""`repotrial contract prove`: a corrected draft is run again."""

from __future__ import annotations

import shlex
from typing import Final

import typer

from repotrial import api
from repotrial._core.display import list_some
from repotrial._core.errors import ExitCode
from repotrial.cli._contract_new import ignore_step, show_proof, tell_step
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import ContractDirectory, JsonFlag
from repotrial.cli._output import Screen, print_json

_MOST_NAMED: Final = 8


def prove(directory: ContractDirectory, *, cache: CacheOption = None, json: JsonFlag = False) -> None:
    """Run the first check on the snapshot and on the reference, three times each, and write what happened.

    The inventory becomes the tests that turn and those that stay; tests that fail with the reference are
    taken out of the command. Nothing else of contract.toml changes. Ends with 1 where no test turns.
    """
    proved = api.prove_contract(directory, build_settings(cache), ignore_step if json else tell_step)
    if json:
        print_json(proved)
    else:
        _show_proved(Screen(), proved)
    if not proved.proof.is_proved:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _show_proved(screen: Screen, proved: api.ProvedContract) -> None:
    show_proof(screen, proved)
    for group in getattr(proved.proof, "left_out", ()):
        screen.line(f"  left out, {group.reason}: {list_some(list(group.tests), most=_MOST_NAMED)}")
    for name in proved.written:
        screen.line((f"written: {proved.directory}/{name}", "bold"))
    if proved.proof.is_proved:
        screen.line(f"next: `repotrial contract lock {shlex.quote(proved.directory)}`")
