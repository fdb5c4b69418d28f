"""Stores by their addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from repotrial.store._bucket import TESTED, UNTESTED, open_bucket
from repotrial.store._directory import DirectoryStore
from repotrial.store._store import STORE_REFUSED, STORE_URL, Store

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):")


def is_store_url(text: str) -> bool:
    """Whether this is meant as the address of a store and not as a path."""
    return _SCHEME.match(text) is not None


def open_store(url: str, variables: Mapping[str, str], *, may_make: bool = False) -> Store:
    """Open a store.

    Args:
        url: `file:DIR`, `s3://BUCKET/PREFIX`, or another kind that `obstore` knows.
        variables: Credentials and the like, by the names that the tools of a provider read.
        may_make: Whether a directory that is not there is made.

    Raises:
        STORE_URL: it is not an address, or of an unknown kind.
        STORE_EXTRA: the library for it is not installed.
        STORE_REFUSED: the directory is not there, or cannot be used.
    """
    match = _SCHEME.match(url)
    scheme = "" if match is None else match.group(1)
    if scheme not in TESTED | UNTESTED:
        known = ", ".join(f"{name}:" for name in sorted(TESTED))
        untested = ", ".join(f"{name}:" for name in sorted(UNTESTED))
        raise STORE_URL.error(
            f"expected the address of a store ({known}; untested: {untested}), found {url!r}"
        )
    if scheme != "file":
        return open_bucket(url, scheme, variables)
    root = Path(unquote(url.removeprefix("file:").removeprefix("//"))).absolute()
    try:
        if may_make:
            root.mkdir(parents=True, exist_ok=True)
        is_there = root.is_dir()
    except OSError as error:
        raise STORE_REFUSED.error(f"{url}: expected a directory, found: {error}") from error
    if not is_there:
        raise STORE_REFUSED.error(
            f"{url}: expected a directory, found none", hint="make it, or look at the address"
        )
    return DirectoryStore(root)


def is_tested(url: str) -> bool:
    """Whether stores of this kind are in our tests."""
    return url.partition(":")[0] in TESTED
