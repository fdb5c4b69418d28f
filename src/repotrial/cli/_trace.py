"""`repotrial trace`: the key that seals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, print_json

app = noun("trace", "Traces: what happened, and the key that seals it.")
key_app = noun(
    "key",
    "The Ed25519 key that seals traces on this machine.",
    epilog="Example: repotrial trace key show > public-key.pem",
)
app.add_typer(key_app)


HOME_UNKNOWN = ErrorCode(
    "home-unknown",
    UsageError,
    "There is no home directory in which to look for the key that seals traces.",
    hint="name the key with --key-file, or set HOME or XDG_CONFIG_HOME",
)


def default_key_file() -> Path | None:
    """Where the key lives unless told otherwise; environment variables are read in the CLI only."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not configuration.is_absolute():  # the specification says to ignore others
        try:
            configuration = Path.home() / ".config"
        except RuntimeError:  # neither HOME nor an entry in the user database
            return None
    return configuration / "repotrial" / "seal-key.pem"


def find_key_file(chosen: Path | None = None) -> Path:
    """The key that was named, else where this machine's own lives.

    Raises:
        HOME_UNKNOWN: neither is known.
    """
    key = chosen or default_key_file()
    if key is None:
        raise HOME_UNKNOWN.error("expected a home directory with the key, found that this user has none")
    return key


@key_app.command("show", epilog="Example: repotrial trace key show > public-key.pem")
def show_key(
    *,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The private key; made on first use, mode 0600.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Print the public key, to give to those who verify runs of this machine."""
    key = api.show_key(find_key_file(key_file))
    if json:
        print_json(key)
        return
    typer.echo(key.public_key, nl=False)
    Screen(to_stderr=True).line(f"key id {key.key_id}, private part in {key.path}")
