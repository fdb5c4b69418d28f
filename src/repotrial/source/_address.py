"""What a source string may name: a place on this machine, or one behind an allowed transport. Nothing else.

Git itself understands far more (`ext::` commands, options in place of URLs, helpers by name). All of that is
refused here, before git sees a character of it; credentials are refused too, and never repeated in a message.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import TRANSPORTS

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_SCP_LIKE = re.compile(r"(?:(?P<user>[^/:@]+)@)?(?P<host>\[[^\]/]+\]|[^/:@]+):(?P<path>.+)")
_PASSWORD = re.compile(r"[^/@]*@[^/]")


SOURCE_REFUSED = ErrorCode(
    "source-refused",
    ContractError,
    "A repository source is no plain URL or path: it is empty, or holds an option or control characters.",
    hint="write an https URL, or the path of a repository, bundle or archive beside the contract",
)
PROTOCOL_REFUSED = ErrorCode(
    "protocol-refused",
    ContractError,
    "A repository source or a submodule needs a transport that the contract does not allow.",
    hint="list the transport in `repository.protocols`, or put a bundle beside the contract",
)
SOURCE_HAS_CREDENTIALS = ErrorCode(
    "source-has-credentials",
    ContractError,
    "A repository URL holds a user name, a password or a token, and contracts are there to be published.",
    hint="remove the credentials from the URL and revoke them; use a bundle for a private repository",
)
SOURCE_OUTSIDE = ErrorCode(
    "source-outside",
    ContractError,
    "A repository source leads out of the contract directory, so the contract would not work elsewhere.",
    hint="put the repository or a bundle of it beside the contract, or use a file:// URL with `file` allowed",
)


class LocalAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A repository directory or a bundle file on this machine."""

    path: Path
    """Absolute."""
    boundary: Path | None = None
    """The contract directory, if the source was given relative to it; submodules may not leave it either."""


class RemoteAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A repository behind a transport."""

    url: str
    protocol: str


SourceAddress: TypeAlias = LocalAddress | RemoteAddress


def parse_address(
    source: str, *, base: Path, protocols: Collection[str], is_confined: bool = True
) -> SourceAddress:
    """Read a source string.

    Args:
        source: A URL, an scp-like `host:path`, or a path.
        base: The directory that relative paths start from.
        protocols: Transports that the contract allows.
        is_confined: Paths must be relative and stay inside `base`; false for a person's own repositories.

    Raises:
        SOURCE_REFUSED: not a plain URL or path.
        PROTOCOL_REFUSED: the transport is not allowed.
        SOURCE_HAS_CREDENTIALS: the URL holds credentials.
        SOURCE_OUTSIDE: the path leads out of `base`.
    """
    _verify_plain(source)
    if scheme := _SCHEME.match(source):
        return _parse_url(source, scheme[1].lower(), protocols)
    if _HELPER.match(source):
        raise PROTOCOL_REFUSED.error(f"expected one of {', '.join(TRANSPORTS)}, found a remote helper ('::')")
    if match := _SCP_LIKE.fullmatch(source):
        _verify_protocol("ssh", protocols)
        if any(match[part].startswith("-") for part in ("host", "path")) or (match["user"] or "").startswith(
            "-"
        ):
            raise SOURCE_REFUSED.error("expected host:path, found a part that begins with '-'")
        if _PASSWORD.match(match["path"]):
            raise SOURCE_HAS_CREDENTIALS.error(
                "expected host:path without credentials, found user:password@host"
            )
        return RemoteAddress(url=source, protocol="ssh")
    if not is_confined:
        return LocalAddress(path=_resolve(base / source))
    return LocalAddress(path=locate_beside(source, base=base), boundary=_resolve(base))


def locate_beside(source: str, *, base: Path) -> Path:
    """The file or directory that a contract names; inside its directory, whatever links lead there."""
    _verify_plain(source)
    boundary = _resolve(base)
    path = _resolve(boundary / source)
    if Path(source).is_absolute() or not path.is_relative_to(boundary):
        raise SOURCE_OUTSIDE.error(f"expected a path inside the contract directory, found {source!r}")
    return path


def join_address(url: str, *, parent: SourceAddress, protocols: Collection[str]) -> SourceAddress:
    """Where a submodule's URL leads: `./x` and `../x` start from the superproject, as in git.

    A path of this machine is followed only if it is relative: `.gitmodules` is not written by the contract's
    author, so it may not pick directories here. The contract can name another source for the submodule.
    """
    _verify_plain(url)
    if url.startswith(("./", "../")):
        return _join_relative(url, parent, protocols)
    address = parse_address(url, base=Path("/"), protocols=protocols, is_confined=False)
    if isinstance(address, LocalAddress):
        raise PROTOCOL_REFUSED.error(
            f"expected a relative or remote submodule URL, found the local path {url!r}"
        )
    return address


def render_address(address: SourceAddress) -> str:
    """The address for messages."""
    match address:
        case LocalAddress():
            return str(address.path)
        case RemoteAddress():
            return address.url


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # up to Python 3.12 a circle of links is a RuntimeError
        raise SOURCE_REFUSED.error(f"expected a path that leads somewhere, found a circle: {path}") from error


def _verify_plain(source: str) -> None:
    if not source.strip() or source != source.strip():
        raise SOURCE_REFUSED.error(
            "expected a URL or a path, found an empty source or one with blanks around it"
        )
    if source.startswith("-"):
        raise SOURCE_REFUSED.error("expected a URL or a path, found what git would read as an option ('-…')")
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in source):  # noqa: PLR2004 - ASCII controls
        raise SOURCE_REFUSED.error("expected a URL or a path, found control characters in it")


def _verify_protocol(protocol: str, protocols: Collection[str]) -> None:
    if protocol not in TRANSPORTS:
        raise PROTOCOL_REFUSED.error(
            f"expected one of {', '.join(TRANSPORTS)}, found the transport {protocol!r}"
        )
    if protocol not in protocols:
        allowed = ", ".join(sorted(protocols)) or "none"
        raise PROTOCOL_REFUSED.error(f"expected an allowed transport ({allowed}), found {protocol!r}")


def _parse_url(source: str, scheme: str, protocols: Collection[str]) -> SourceAddress:
    _verify_protocol(scheme, protocols)
    try:
        parts = urlsplit(source)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        # The parser's own words could repeat the URL, and the URL could hold a password.
        raise SOURCE_REFUSED.error(f"expected a URL, found a malformed {scheme} one") from error
    if parts.password is not None or (parts.username is not None and scheme != "ssh"):
        raise SOURCE_HAS_CREDENTIALS.error(
            f"expected a URL without credentials, found some in the one for {host!r}"
        )
    if parts.query or parts.fragment:
        raise SOURCE_HAS_CREDENTIALS.error(
            f"expected no query or fragment in the URL for {host!r}: tokens travel there"
        )
    if scheme == "file":
        if host not in {"", "localhost"} or not parts.path.startswith("/"):
            raise SOURCE_REFUSED.error(
                "expected file:///absolute/path, found another host or a relative path"
            )
        path = os.fsdecode(unquote_to_bytes(parts.path))
        _verify_plain(path)
        return LocalAddress(path=Path(os.path.normpath(path)))
    if not host or host.startswith("-") or (parts.username or "").startswith("-") or "\\" in source:
        raise SOURCE_REFUSED.error(
            f"expected a host name in the {scheme} URL, found none or one that begins with '-'"
        )
    return RemoteAddress(url=source, protocol=scheme)


def _join_relative(url: str, parent: SourceAddress, protocols: Collection[str]) -> SourceAddress:
    match parent:
        case LocalAddress():
            return _join_local(url, parent, protocols)
        case RemoteAddress():
            return parse_address(_join_remote(url, parent.url), base=Path("/"), protocols=protocols)


def _join_local(url: str, parent: LocalAddress, protocols: Collection[str]) -> LocalAddress:
    path = _resolve(parent.path / url)
    if parent.boundary is None:
        _verify_protocol("file", protocols)
    elif not path.is_relative_to(parent.boundary):
        raise SOURCE_OUTSIDE.error(f"expected a submodule inside the contract directory, found {url!r}")
    return LocalAddress(path=path, boundary=parent.boundary)


def _join_remote(url: str, parent: str) -> str:
    if not _SCHEME.match(parent):
        host, _, path = parent.partition(":")
        return f"{host}:{_climb(path, url)}"
    parts = urlsplit(parent)
    return urlunsplit(parts._replace(path="/" + _climb(parts.path.lstrip("/"), url)))


def _climb(path: str, url: str) -> str:
    """Join as git does: each `../` drops one component of the superproject's address, the last one first."""
    joined = posixpath.normpath(posixpath.join(path.rstrip("/"), url))
    if joined.startswith("..") or joined == ".":
        raise SOURCE_REFUSED.error(f"expected a submodule URL below the superproject's host, found {url!r}")
    return joined
