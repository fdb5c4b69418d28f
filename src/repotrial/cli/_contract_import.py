"""`repotrial contract import`: contracts from other tools' data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from repotrial.cli._options import JsonFlag

__all__ = ["ImportFormat", "import_contracts"]

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

    Nothing of the repository is run. What the file leaves open is shown, as `contract new` does.
    """
    from repotrial import api
    from repotrial.cli._contract_new import show_created
    from repotrial.cli._output import print_json

    del format_  # there is one so far
    created = []
    for instance in api.load_swebench_instances(file, instances or ()):
        options = api.SwebenchContract(
            instance=instance,
            source=repository,
            directory=out / instance.contract_id,
            python_lock=python_lock,
            is_embedded=embed,
        )
        created.append(api.create_contract_from_swebench(options))
        if not json:
            show_created(created[-1])
    if json:
        print_json(created)
