"""`repotrial contract import`: contracts from other tools' data sets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from repotrial import api
from repotrial._core.errors import ExitCode, RepoTrialError
from repotrial.cli._contract_new import show_created
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, counted, print_error, print_json

ImportFormat: TypeAlias = Literal["swebench"]
"""What can be read."""


def import_contracts(  # noqa: PLR0913 - one option for each thing that the file does not say
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", readable=False, help="Instances: a JSON object, an array, or one object per line."
        ),
    ],
    *,
    repository: Annotated[
        str,
        typer.Option("--repo", metavar="SOURCE", help="The project's repository: a git path, URL or bundle."),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Each contract becomes a directory below this one.")
    ] = Path(),
    format_: Annotated[
        ImportFormat, typer.Option("--format", metavar="NAME", help="Whose format it is: swebench.")
    ] = "swebench",
    instances: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="ID", help="Only this one (repeatable); all if left out."),
    ] = None,
    python_lock: Annotated[
        Path | None,
        typer.Option(
            "--python-lock",
            metavar="FILE",
            help="A requirements file with hashes: what the tests need, pytest included.",
        ),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Put the tree beside the contract, as an archive without history.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make contracts of a data set's instances: the issue becomes the statement, the tests hidden checks.

    Nothing of the repository is run. What the file leaves open is shown, as `contract new` does. Instances
    that have their contract already are skipped; one that is refused does not keep the others from theirs.
    """
    del format_  # there is one so far
    entries: list[Any] = []
    words: Counter[str] = Counter()
    worst = ExitCode.DONE
    chosen = api.load_swebench_instances(file, instances or ())
    for instance in chosen:
        options = api.SwebenchContract(
            instance=instance,
            source=repository,
            directory=out / instance.contract_id,
            python_lock=python_lock,
            is_embedded=embed,
        )
        try:
            word, entry = _import(options, json=json)
        except RepoTrialError as error:
            word, entry = "refused", {"instance": instance.instance_id, "error": error.to_dict()}
            worst = max(worst, error.exit_code)
            if not json:
                print_error(error, where=instance.instance_id)
        words[word] += 1
        entries.append(entry)
    if json:
        print_json(entries)
    elif len(chosen) > 1:
        listed = ", ".join(f"{number} {word}" for word, number in words.items())
        Screen().line((f"{counted(len(chosen), 'instance')}: {listed}", "bold"))
    if worst is not ExitCode.DONE:
        raise typer.Exit(worst)


def _import(options: api.SwebenchContract, *, json: bool) -> tuple[str, Any]:
    """Make one contract, unless an earlier call did: so that a call that was stopped can be repeated."""
    name, place = options.instance.instance_id, options.directory
    if (place / "contract.toml").is_file():
        if not json:
            Screen(to_stderr=True).line(
                ("note", "yellow"), f": {name}: skipped, there is a contract in {place}"
            )
        return "skipped", {"instance": name, "skipped": str(place)}
    created = api.create_contract(options)
    if not json:
        show_created(created)
    return "written", created
