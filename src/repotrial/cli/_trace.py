"""`repotrial trace`: the key that seals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json, print_table

app = noun("trace", "Traces: what happened, and the key that seals it.")
key_app = noun(
    "key",
    "The Ed25519 key that seals here, and the keys that are believed.",
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


def find_trust_file() -> Path | None:
    """The list of trusted keys, beside this machine's own key; None if there is no place for it."""
    key = default_key_file()
    return None if key is None else key.with_name("trust.toml")


def load_trust(files: Sequence[Path] | None = None) -> api.TrustedKeys:
    """Whose seals are believed: this machine's key, listed ones, and those in `files`."""
    return api.KeyRing(default_key_file(), find_trust_file()).load(files or ())


KeyFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        metavar="FILE",
        readable=False,
        help="A public key to believe (repeatable), beside this machine's own and the listed ones.",
    ),
]


def _open_ring() -> api.KeyRing:
    found = find_trust_file()
    if found is None:
        raise HOME_UNKNOWN.error("expected a home directory for the list of keys, found none")
    return api.KeyRing(default_key_file(), found)


def _print_keys(keys: Sequence[api.ListedKey], *, json: bool) -> None:
    if json:
        print_json(keys)
        return
    screen = Screen()
    if keys:
        print_table(screen, ("name", "trust", "fingerprint"), [[k.name, k.trust, k.key_id] for k in keys])
    screen.line((counted(len(keys), "key"), "bold"))


@key_app.command(
    "list",
    short_help="List the keys whose seals are believed here.",
    epilog="Example: repotrial trace key list",
)
def list_keys(*, json: JsonFlag = False) -> None:
    """List the keys whose seals are believed here: this machine's own, and those of `trust.toml`."""
    _print_keys(_open_ring().list_keys(), json=json)


@key_app.command("add", epilog="Example: repotrial trace key add lab-2 public-key.pem")
def add_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="How to call it.")],
    public_key: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="The public key, in PEM form.")
    ],
    *,
    json: JsonFlag = False,
) -> None:
    """Believe seals of a key from now on: its runs count as `listed`."""
    _print_keys([_open_ring().add(name, public_key)], json=json)


@key_app.command(
    "remove",
    short_help="Believe seals of a key no longer.",
    epilog="Example: repotrial trace key remove lab-2",
)
def remove_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `trace key list` shows it.")],
    *,
    json: JsonFlag = False,
) -> None:
    """Believe seals of a key no longer: its successes do not count any more."""
    _print_keys([_open_ring().remove(name)], json=json)


@key_app.command(
    "show",
    short_help="Print the public key that verifies runs of this machine.",
    epilog="Example: repotrial trace key show > public-key.pem",
)
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
