"""Artifacts: files pinned by digest, kept in the store as they are or unpacked.

One that has an address is downloaded when it is first needed, before any sandbox is opened; from then on it
comes from the store, and no network is needed.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from repotrial._core.canonical import canonical_digest
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ContractError, ErrorCode, MachineError, RepoTrialError
from repotrial.contract import ArchiveRepository, Artifact
from repotrial.environment._executions import tell_obtained
from repotrial.environment._store import Facts, Store, StoreEntry, StoreKind
from repotrial.isolation import Bind
from repotrial.source import materialize_snapshot

MAX_BYTES: Final = 4 * 1024**3
_SILENT_SECONDS: Final = 60
_SECONDS: Final = 1800
_FAILURES: Final = (OSError, http.client.HTTPException, ValueError)
"""All that the library raises for an answer that is none; its own errors are of these classes."""


ARTIFACT_ADDRESS = ErrorCode(
    "artifact-address",
    ContractError,
    "An artifact is to be downloaded in a way that is not offered, or leads to one.",
    hint="name an https:// address without a user, or put the file beside the contract",
)
ARTIFACT_UNREACHABLE = ErrorCode(
    "artifact-unreachable",
    MachineError,
    "An artifact is not in the store, and could not be downloaded.",
    hint="connect this machine (HTTPS_PROXY and SSL_CERT_FILE count), put the file beside the contract and "
    "name that path as its source, or copy the store from a machine that has it",
)


def download(url: str, target: Path, *, variables: Mapping[str, str], max_bytes: int = MAX_BYTES) -> Digest:
    """Write what an address serves to a new file; its digest, which the caller has to judge.

    Args:
        url: Where it is.
        target: The file.
        variables: The operator's proxies and certificates.
        max_bytes: More than this is refused.

    Raises:
        ARTIFACT_ADDRESS: it is no HTTPS address, or leads to another kind.
        ARTIFACT_UNREACHABLE: it could not be had.
    """
    _verify_address(url)
    opener = _build_opener(url, variables)
    try:
        with opener.open(url, timeout=_SILENT_SECONDS) as answer, target.open("xb") as file:
            return _receive(answer, file, url, max_bytes)
    except urllib.error.HTTPError as error:
        with error:
            raise ARTIFACT_UNREACHABLE.error(
                f"{_render(url)}: expected a file, found status {error.code}"
            ) from error
    except _FAILURES as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ARTIFACT_UNREACHABLE.error(f"{_render(url)}: expected a file, found: {reason}") from error


def _receive(answer: IO[bytes], file: IO[bytes], url: str, max_bytes: int) -> Digest:
    total, size = hashlib.sha256(), 0
    deadline = time.monotonic() + _SECONDS
    while chunk := answer.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > max_bytes:
            raise ARTIFACT_UNREACHABLE.error(
                f"{_render(url)}: expected at most {max_bytes} bytes, found more"
            )
        if time.monotonic() > deadline:
            raise ARTIFACT_UNREACHABLE.error(
                f"{_render(url)}: expected a file within {_SECONDS} s, found {size} bytes of it"
            )
        total.update(chunk)
        file.write(chunk)
    return "sha256:" + total.hexdigest()


def _render(url: str) -> str:
    """Without what may be a secret: a user, a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _verify_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ARTIFACT_ADDRESS.error(
            f"expected an https address, found {parts.scheme}://{parts.hostname or ''}"
        )
    if "@" in parts.netloc:
        raise ARTIFACT_ADDRESS.error(f"expected an address without a user, found one at {parts.hostname}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Another place is fine; a place without encryption is not."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _verify_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _build_opener(url: str, variables: Mapping[str, str]) -> urllib.request.OpenerDirector:
    """One that knows HTTPS and nothing else: no files, no netrc, no cookies."""
    context = ssl.create_default_context(
        cafile=variables.get("SSL_CERT_FILE") or None, capath=variables.get("SSL_CERT_DIR") or None
    )
    opener = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(_find_proxies(url, variables)),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ]
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _find_proxies(url: str, variables: Mapping[str, str]) -> dict[str, str]:
    found = {name.lower(): value for name, value in variables.items()}
    proxy = found.get("https_proxy") or found.get("all_proxy")
    host = urlsplit(url).netloc
    no_proxy = {"no": found.get("no_proxy", "")}
    is_bypassed = urllib.request.proxy_bypass_environment(host, no_proxy)  # type: ignore[attr-defined]  # it is there
    return {"https": proxy} if proxy and not is_bypassed else {}


_LAYOUT: Final = "repotrial/artifact@1"
_CONTENT: Final = "content"
_DOWNLOAD: Final = "download-"
_NAME_CHARACTERS: Final = 50
_CHUNK_BYTES: Final = 1 << 20


ARTIFACT_MISMATCH = ErrorCode(
    "artifact-mismatch",
    ContractError,
    "A file beside the contract, or what its address serves, is another one than its artifact states.",
    hint="restore the file, or state the digest of the one that is wanted",
)
ARTIFACT_OUTSIDE = ErrorCode(
    "artifact-outside",
    ContractError,
    "An artifact's path leads out of the contract's directory.",
    hint="put the file beside the contract",
)
ARTIFACT_MISSING = ErrorCode(
    "artifact-missing",
    MachineError,
    "An artifact is neither beside the contract nor in the store.",
    hint="put it there, or name the address that serves it as its source",
)


def open_artifact(
    artifact: Artifact, *, directory: Path, store: Store, variables: Mapping[str, str]
) -> StoreEntry:
    """Find an artifact in the store, or put it there: from the contract's directory, or from its address.

    Args:
        artifact: As the contract names it.
        directory: The contract's.
        store: Where artifacts are kept.
        variables: The operator's proxies and certificates.

    Raises:
        ARTIFACT_MISSING: the file is not there.
        ARTIFACT_ADDRESS: its address is none that is asked.
        ARTIFACT_UNREACHABLE: it could not be downloaded.
        ARTIFACT_MISMATCH: the file is another one.
        ARTIFACT_OUTSIDE: its path leaves the contract's directory.
        ARCHIVE_UNREADABLE: it cannot be unpacked.
        UNSAFE_PATH: a member leads out of it.
    """
    key = _build_key(artifact)
    if (found := store.find(StoreKind.ARTIFACT, key)) is not None:
        return found
    is_far = "://" in artifact.source
    path = None if is_far else _locate(artifact, directory)

    def build(tree: Path, _lock: int) -> Facts:
        # Beside the tree: it goes with it if anything fails.
        source = path or tree.parent / _name_download(artifact)
        started_us = SystemClock().now_us()
        if is_far:
            _fetch(artifact, source, variables)
        if artifact.unpack == "none":
            _copy(artifact, source, tree / _CONTENT)
        else:
            _unpack(artifact, source, tree)
        if not is_far:
            _tell(artifact, ("copy", artifact.source), started_us, size_bytes=source.stat().st_size)
        else:
            source.unlink()
        return {"digest": artifact.digest, "unpack": artifact.unpack}

    return store.make(StoreKind.ARTIFACT, key, build)


def _fetch(artifact: Artifact, target: Path, variables: Mapping[str, str]) -> None:
    """Download it and hold it against its digest; either way that is on record."""
    started_us, request = SystemClock().now_us(), ("GET", _render(artifact.source))
    try:
        found = download(artifact.source, target, variables=variables)
    except RepoTrialError as error:
        _tell(artifact, request, started_us, problem=error.message)
        raise
    tell_obtained(
        f"artifact {artifact.id}",
        request,
        started_us=started_us,
        digest=found,
        size_bytes=target.stat().st_size,
    )
    _verify(artifact, found)


def _tell(
    artifact: Artifact, done: tuple[str, ...], started_us: int, *, size_bytes: int = 0, problem: str = ""
) -> None:
    tell_obtained(
        f"artifact {artifact.id}",
        done,
        started_us=started_us,
        digest=digest_bytes(b"") if problem else artifact.digest,
        size_bytes=size_bytes,
        problem=problem,
    )


def build_artifact_bind(artifact: Artifact, entry: StoreEntry) -> Bind:
    """How a sandbox shows it."""
    source = entry.path / _CONTENT if artifact.unpack == "none" else entry.path
    return Bind(source=source, target=artifact.target)


def _build_key(artifact: Artifact) -> Digest:
    return canonical_digest(
        {
            "layout": _LAYOUT,
            "digest": artifact.digest,
            "unpack": artifact.unpack,
            "strip_components": artifact.strip_components,
        }
    )


def _name_download(artifact: Artifact) -> str:
    """A name of our own that ends like the address, since an archive's kind is told by its name."""
    name = urlsplit(artifact.source).path.rpartition("/")[2]
    return _DOWNLOAD + re.sub(r"[^A-Za-z0-9.]", "_", name)[-_NAME_CHARACTERS:]


def _locate(artifact: Artifact, directory: Path) -> Path:
    root = directory.resolve()
    path = (root / artifact.source).resolve()
    if not path.is_relative_to(root):
        raise ARTIFACT_OUTSIDE.error(
            f"environment.artifacts: {artifact.id}: expected a path inside {directory}, found {path}"
        )
    if not path.is_file():
        raise ARTIFACT_MISSING.error(
            f"environment.artifacts: {artifact.id}: expected a file, found no {path}"
        )
    return path


def _copy(artifact: Artifact, path: Path, target: Path) -> None:
    total = hashlib.sha256()
    with path.open("rb") as stream, target.open("wb") as copy:
        for chunk in _iter_chunks(stream):
            total.update(chunk)
            copy.write(chunk)
    _verify(artifact, "sha256:" + total.hexdigest())
    # It may be a tool: it runs whatever its mode was when it was unpacked.
    target.chmod(0o755)


def _unpack(artifact: Artifact, path: Path, tree: Path) -> None:
    with path.open("rb") as stream:
        _verify(artifact, "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest())
    source = ArchiveRepository(
        source=path.name, digest=artifact.digest, strip_components=artifact.strip_components
    )
    materialize_snapshot(source, base=path.parent, into=tree)


def _verify(artifact: Artifact, found: Digest) -> None:
    if found != artifact.digest:
        raise ARTIFACT_MISMATCH.error(
            f"environment.artifacts: {artifact.id}: expected {artifact.digest}, found {found}"
        )


def _iter_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk
