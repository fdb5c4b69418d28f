"""Downloads: over HTTPS alone, bounded in size and time; what came is believed only by its digest."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode, MachineError

MAX_BYTES: Final = 4 * 1024**3
_SILENT_SECONDS: Final = 60
_SECONDS: Final = 1800
_CHUNK_BYTES: Final = 1 << 20
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
            return _copy(answer, file, url, max_bytes)
    except urllib.error.HTTPError as error:
        with error:
            raise ARTIFACT_UNREACHABLE.error(
                f"{_render(url)}: expected a file, found status {error.code}"
            ) from error
    except _FAILURES as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ARTIFACT_UNREACHABLE.error(f"{_render(url)}: expected a file, found: {reason}") from error


def _copy(answer: IO[bytes], file: IO[bytes], url: str, max_bytes: int) -> Digest:
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
