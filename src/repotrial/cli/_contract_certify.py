"""`repotrial contract certify`: a contract is tried before it tries agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial import api
from repotrial.cli._batch import BatchVerdict, work_through
from repotrial.cli._machine import CacheOption, SkipFlag, build_settings, tell_left_out
from repotrial.cli._options import ContractDirectories, JsonFlag
from repotrial.cli._output import Screen, ScreenPart, print_table
from repotrial.cli._trace import find_key_file

if TYPE_CHECKING:
    from collections.abc import Callable


_QUICK_REPEATS = 2
_STYLES = {
    "holds": "green",
    "refused": "green",
    "fails": "bold red",
    "accepted": "bold red",
    "not-tried": "bold red",
    "note": "yellow",
}


def certify(  # noqa: PLR0913 - one option for each thing that an author decides
    directories: ContractDirectories,
    *,
    repeats: Annotated[
        int, typer.Option("--repeats", min=2, help="How often the snapshot and the reference are judged.")
    ] = 3,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats and cheats; the certificate says so.")
    ] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs", metavar="DIR", readable=False, help="Keep the runs here (else they are thrown away)."
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The private key that signs; this machine's own if left out.",
        ),
    ] = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME",
            help="A secret of the contract, from the environment variable of that name (repeatable).",
        ),
    ] = None,
    cache: CacheOption = None,
    skip_unavailable: SkipFlag = False,
    json: JsonFlag = False,
) -> None:
    """Try a contract: snapshot, reference, flakiness, leaks and a set of cheats, which must all fail.

    Writes the signed certificate contract.certificate.json beside the contract. Exit code 0: certified;
    1: not certified, and the certificate says why; 3: this machine cannot carry it through.
    """
    key = find_key_file(key_file)
    request = api.CertificationRequest(
        machine=build_settings(cache, secrets=secrets or ()),
        key_file=key,
        grade="quick" if quick else "full",
        repeats=min(repeats, _QUICK_REPEATS) if quick else repeats,
        jobs=jobs,
        runs=runs,
    )
    if skip_unavailable:
        directories, left_out = api.choose_available(directories, request.machine)
        tell_left_out(left_out)
    work_through(
        directories,
        lambda directory: _certify(directory, request),
        judge=lambda result: BatchVerdict(_word(result), result.certificate.is_certified),
        show=_show,
        noun="contract",
        json=json,
    )


def _certify(directory: Path, request: api.CertificationRequest) -> api.Certification:
    try:
        return api.certify_contract(directory, request, _build_listener(directory))
    except KeyboardInterrupt:
        kept = "" if request.runs is None else f", finished runs are kept in {request.runs}"
        Screen(to_stderr=True).line(
            f"stopped: no certificate was written for {directory}, contracts before it keep theirs{kept}; "
            "give the same command again to start this one over"
        )
        raise


def _build_listener(directory: Path) -> Callable[[str, str, int], None]:
    screen = Screen(to_stderr=True)  # progress is no result

    def tell(purpose: str, verdict: str, left: int) -> None:
        screen.line((f"{directory.name}: ", "dim"), f"{purpose}: {verdict}", (f" ({left} left)", "dim"))

    return tell


def _word(result: api.Certification) -> str:
    return "certified" if result.certificate.is_certified else "not certified"


def _show(screen: Screen, result: api.Certification) -> None:
    certificate = result.certificate
    rows: list[list[ScreenPart]] = [
        [item.id, (item.outcome, _STYLES.get(item.outcome, "")), item.message] for item in certificate.items
    ]
    rows += [
        [
            f"cheat {cheat.name} ({cheat.variant})",
            (cheat.outcome, _STYLES.get(cheat.outcome, "")),
            cheat.reason or ", ".join(dict.fromkeys(cheat.tags)) or cheat.verdict,
        ]
        for cheat in certificate.cheats
        if cheat.run
    ]
    screen.line((str(Path(result.path).parent), "bold"))
    print_table(screen, ("item", "outcome", "what must hold, and what refused a cheat"), rows)
    for item in certificate.items:
        for finding in item.findings:
            screen.line((f"{item.id}: ", "bold"), finding)
    style = "bold green" if certificate.is_certified else "bold red"
    screen.line((f"{_word(result)} ", style), f"({certificate.grade}): {result.path}")
