"""`repotrial suite`: contracts that count together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._trace import find_key_file

app = noun("suite", "Suites: contracts that count together, under one id.")


@app.command(
    "lock",
    short_help="Check every contract and certificate, and write the suite's id.",
    epilog="Example: repotrial suite lock suite.toml --reason 'flaky check of parser-dates replaced'",
)
def lock(  # noqa: PLR0913 - one option for each thing that an author decides
    path: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="The suite's file (suite.toml).")
    ],
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why it differs from the suite before.")
    ] = None,
    key_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key whose certificates count (repeatable); any key if left out.",
        ),
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Make the full certificates that contracts lack first.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="With --certify: runs at a time.")] = 1,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", readable=False, help="With --certify: the private key that signs."
        ),
    ] = None,
    cache: CacheOption = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the lock is not the present one.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Check that every contract is locked and fully certified, and write suite.lock.json.

    A contract or a check that was changed or removed makes another suite: its id names the one before, and
    why (--reason). A quick certificate is not enough: --certify makes full ones.
    """
    if certify and not check_only:
        request = api.CertificationRequest(
            machine=build_settings(cache), key_file=find_key_file(key_file), jobs=jobs
        )
        api.certify_suite(path, request, _ignore if json else _tell)
    keys = api.load_trusted_keys(key_files, None) if key_files else None
    result = api.lock_suite(path, reason=reason, trusted_keys=keys, is_check=check_only)
    if json:
        print_json(result)
        return
    screen = Screen()
    screen.line((f"{'written' if result.is_written else 'unchanged'}: {result.path}", "bold"))
    screen.line(f"  suite id  {result.lock.suite_id}")
    screen.line(f"  {counted(len(result.lock.contracts), 'contract')}, each with a full certificate")
    for change in result.changes:
        screen.line(f"  changed: {change}")
    for revision in result.lock.lineage:
        screen.line(f"  before: {revision.suite_id}: {revision.reason}")


def _tell(contract: str, purpose: str, verdict: str, left: int) -> None:
    Screen(to_stderr=True).line(f"{contract}: {purpose}: {verdict} ({left} left)")


def _ignore(contract: str, purpose: str, verdict: str, left: int) -> None:
    del contract, purpose, verdict, left
