"""Whose seals are believed: this machine's own key, and keys that `trust.toml` lists by name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import write_atomic
from repotrial.signing._keys import PublicKey, parse_public_key

Trust: TypeAlias = Literal["own", "listed", "unknown signer", "unsealed", "broken"]
"""Who vouches for a record; it stands beside the status, which needs no key."""

_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)")]

TRUST_FILE = ErrorCode(
    "trust-file",
    UsageError,
    "The list of trusted keys cannot be read, cannot be written, or has no such name.",
    hint="`repotrial trace key list` shows it; each entry has a name and `public_key`, a key in PEM form",
)


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public_key: str


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: Literal["repotrial/trust@1"] = "repotrial/trust@1"
    keys: dict[_Name, _Entry] = {}


class TrustedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys that are believed, by their ids."""

    own: str | None = None
    """This machine's own; None if it has none."""
    listed: dict[str, str] = {}
    """Names of the others."""

    @classmethod
    def build(cls, own: PublicKey | None, listed: Iterable[tuple[str, PublicKey]]) -> TrustedKeys:
        """The ids of keys that are believed."""
        return cls(own=None if own is None else own.key_id, listed={key.key_id: name for name, key in listed})

    def judge(self, key_id: str) -> Trust:
        """What a valid seal by that key is worth."""
        if key_id == self.own:
            return "own"
        return "listed" if key_id in self.listed else "unknown signer"


class TrustList:
    """The file `trust.toml`: names of keys, and the keys."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, PublicKey]:
        """All keys by name; none where there is no file.

        Raises:
            TRUST_FILE: it is not such a list; the message names the entry.
        """
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise TRUST_FILE.error(f"{self._path}: expected a readable file, found: {error}") from error
        try:
            document = msgspec.convert(tomllib.loads(text), _Document)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise TRUST_FILE.error(f"{self._path}: expected a list of keys, found: {error}") from error
        return {
            name: parse_public_key(entry.public_key, name=f"{self._path}: keys.{name}")
            for name, entry in document.keys.items()
        }

    def add(self, name: str, key: PublicKey) -> None:
        """List a key.

        Raises:
            TRUST_FILE: the name is taken by another key, is no name, or the file cannot be written.
        """
        known = self.load()
        if name in known and known[name] != key:
            raise TRUST_FILE.error(
                f"{name}: expected a name that is free, found the key {known[name].key_id}",
                hint=f"choose another name, or first: repotrial trace key remove {name}",
            )
        self._write({**known, name: key})

    def remove(self, name: str) -> PublicKey:
        """Take a key off the list.

        Raises:
            TRUST_FILE: it is not on it.
        """
        known = self.load()
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise TRUST_FILE.error(f"{name}: expected a listed name ({listed}), found no such one")
        key = known.pop(name)
        self._write(known)
        return key

    def _write(self, keys: dict[str, PublicKey]) -> None:
        lines = ['schema = "repotrial/trust@1"']
        for name, key in sorted(keys.items()):
            lines += ["", f'[keys."{name}"]', f'public_key = """\n{key.pem}"""']
        data = "\n".join(lines) + "\n"
        try:
            msgspec.convert(tomllib.loads(data), _Document)
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._path, data.encode())
        except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise TRUST_FILE.error(
                f"{self._path}: expected to write a list of keys, found: {error}"
            ) from error
