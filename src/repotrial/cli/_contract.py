"""`repotrial contract`: check, lock, prove, certify, refresh, complexity, show, schema, new, mine …"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._batch import BatchVerdict, work_through
from repotrial.cli._contract_certify import certify
from repotrial.cli._contract_complexity import complexity
from repotrial.cli._contract_mine import mine, review
from repotrial.cli._contract_new import import_contracts, new_contract
from repotrial.cli._contract_prove import prove
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import ContractDirectories, ContractDirectory, JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json, print_problems
from repotrial.cli._trace import default_key_file

app = noun("contract", "Contracts: what is promised.")
app.command(
    "new",
    short_help="Write a contract for a repository or a merged change.",
    epilog="Example: repotrial contract new mine --repository ../app --from-commit 4f1c2ab",
)(new_contract)
app.command(
    "prove",
    short_help="Run a contract's tests, and write its inventory.",
    epilog="Example: repotrial contract prove my-contract",
)(prove)
app.command(
    "import",
    short_help="Make contracts of a data set's instances.",
    epilog="Example: repotrial contract import instances.jsonl --repo ../app --out contracts",
)(import_contracts)
app.command(
    "mine",
    short_help="Make contracts of the changes in a history.",
    epilog="Example: repotrial contract mine ../app --out mined --limit 50 --jobs 2",
)(mine)
app.command(
    "review",
    short_help="Edit and approve the statements of mined contracts.",
    epilog="Example: repotrial contract review mined --batch 5",
)(review)
app.command(
    "certify",
    short_help="Try a contract: snapshot, reference, leaks, cheats.",
    epilog="Example: repotrial contract certify examples/contracts/textkit-wide-chars --jobs 2",
)(certify)
app.command(
    "complexity",
    short_help="Measure proxies of a repository's complexity.",
    epilog="Example: repotrial contract complexity examples/contracts/textkit-wide-chars",
)(complexity)


@app.command("check", epilog="Example: repotrial contract check examples/contracts/textkit-wide-chars")
def check(
    directories: ContractDirectories,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as findings too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print findings only.")] = False,
    json: JsonFlag = False,
) -> None:
    """Check contracts: schema, files, lock and lint. Every problem is shown, with its line."""
    work_through(
        directories,
        api.check_contract,
        judge=lambda result: BatchVerdict(_word(result), result.holds(strict=strict)),
        show=_show_findings if quiet else _show_check,
        noun=None if quiet else "contract",
        json=json,
    )


@app.command(
    "lock",
    short_help="Pin every digest, and write the version id.",
    epilog="Example: repotrial contract lock examples/contracts/textkit-wide-chars --check",
)
def lock(
    directories: ContractDirectories,
    *,
    check_only: Annotated[
        bool, typer.Option("--check", help="Recompute every pin, the repository's too; write nothing.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Pin every digest and write the version id into contract.lock.json."""
    if check_only:
        work_through(
            directories,
            api.verify_lock,
            judge=lambda result: BatchVerdict(_word(result), result.holds(strict=True)),
            show=_show_check,
            noun="contract",
            json=json,
        )
    else:
        work_through(
            directories,
            api.lock_contract,
            judge=lambda result: BatchVerdict("written" if result.is_written else "unchanged", holds=True),
            show=_show_lock,
            noun="contract",
            json=json,
        )


@app.command(
    "refresh",
    short_help="Renew the packages of a contract, as a new version.",
    epilog="Example: repotrial contract refresh my-contract --reason 'the index lost six 1.10'",
)
def refresh(
    directory: ContractDirectory,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept beside the contract.")
    ],
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Lock the packages of today in the place of an aged lock, if the checks say the same with them.

    The version id changes: the one before is named in contract.lineage.json, and the contract needs another
    certificate.
    """
    note = Screen(to_stderr=True)

    def on_step(step: str) -> None:
        if not json:
            note.line((f"trying: {step}", "dim"))

    result = api.refresh_contract(directory, build_settings(cache), on_step, reason=reason)
    if json:
        print_json(result)
    else:
        _show_lock(Screen(), result)


@app.command(
    "show",
    short_help="Show a contract, and what its certificate is worth.",
    epilog="Example: repotrial contract show examples/contracts/textkit-wide-chars",
)
def show(
    directory: ContractDirectory,
    *,
    key_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key whose certificates to trust (repeatable); this machine's own if left out.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show a contract as people read it, and what its certificate is worth."""
    from repotrial.cli._contract_view import render_contract

    loaded = api.load_contract(directory)
    certificate = api.find_certificate(loaded, api.load_trusted_keys(key_files or (), default_key_file()))
    if json:
        print_json(api.describe_contract(loaded, certificate))
    else:
        Screen().draw(render_contract(loaded, api.describe_certificate(certificate)))


def _complete_schema(incomplete: str) -> list[str]:
    return [name for name in api.list_schemas() if name.startswith(incomplete)]


@app.command("schema", epilog="Example: repotrial contract schema contract > contract.schema.json")
def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="agent, aggregate, analysis, certificate, contract, failure-mode, inventory, lock, "
            "manifest, rejudged, report, retrieval, retrieval-events-1.0, retrieval-events-1.1, "
            "retrieval-metrics-1.0, retrieval-metrics-1.1, score, script or trace.",
            autocompletion=_complete_schema,
        ),
    ] = "contract",
    *,
    json: JsonFlag = False,
) -> None:
    """Print a published JSON Schema (for editors and other tools)."""
    del json  # a schema is a JSON document with and without it
    print_json(api.build_schema(name))


def _word(result: api.ContractCheck) -> str:
    if not result.holds(strict=False):
        return "invalid"
    return "sound" if result.holds(strict=True) else "usable"


def _show_check(screen: Screen, result: api.ContractCheck) -> None:
    _show_findings(screen, result)
    errors = sum(problem.severity == "error" for problem in result.problems)
    warnings = len(result.problems) - errors
    style = {"invalid": "bold red", "usable": "bold yellow", "sound": "bold green"}[_word(result)]
    screen.line(
        (f"{_word(result):<8}", style),
        f"{result.directory}: {counted(errors, 'error')}, {counted(warnings, 'warning')}",
    )


def _show_findings(screen: Screen, result: api.ContractCheck) -> None:
    print_problems(screen, result)


def _show_lock(screen: Screen, result: api.LockResult) -> None:
    screen.line((f"{'written' if result.is_written else 'unchanged'}: {result.path}", "bold"))
    screen.line(f"  version id  {result.lock.version_id}")
    screen.line(f"  tree digest {result.lock.repository.tree_digest}")
    screen.line(f"  {counted(len(result.lock.files), 'file')} pinned, {result.lock.replay}")
    for change in result.changes:
        screen.line(f"  changed: {change.field}: {change.old or 'nothing'} → {change.new or 'nothing'}")
