"""`s3:` and the other kinds that `obstore` knows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from repotrial._core.digest import Digest
from repotrial.store._store import (
    MAX_SMALL_BYTES,
    STORE_DIGEST,
    STORE_EXTRA,
    STORE_MISSING,
    STORE_REFUSED,
    STORE_UNREACHABLE,
    STORE_URL,
    Store,
    StoredObject,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PIECE: Final = 1024**2
_PAGE: Final = 1000
_SETTINGS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_DEFAULT_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
}
"""What the other tools of the same kind read, too."""
_DENIED: Final = ("Forbidden", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")
TESTED: Final = frozenset({"file", "s3"})
UNTESTED: Final = frozenset({"gs", "az", "abfs", "abfss"})


def open_bucket(url: str, scheme: str, variables: Mapping[str, str]) -> BucketStore:
    """A store that is reached over the network; nothing is asked of it yet.

    Raises:
        STORE_EXTRA: the library is not installed.
        STORE_URL: it cannot be opened by that address.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store, from_url
    except ImportError as error:
        raise STORE_EXTRA.error(f"{url}: expected the library obstore, found: {error}") from error
    retry: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
    client: Any = {"timeout": "30s", "connect_timeout": "5s"}
    try:
        if scheme != "s3":
            return BucketStore(url, from_url(url, client_options=client, retry_config=retry))
        settings: Any = {
            name: variables[variable] for variable, name in _SETTINGS.items() if variables.get(variable)
        }
        client["allow_http"] = str(settings.get("endpoint", "")).startswith("http://")
        # The digest goes with each object, and the store refuses what does not have it.
        settings |= {"checksum_algorithm": "sha256", "region": settings.get("region", "us-east-1")}
        opened = S3Store.from_url(url, config=settings, client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise STORE_URL.error(f"{url}: expected a bucket's address, found: {_say(error)}") from error
    return BucketStore(url, opened)


class BucketStore(Store):
    """Objects in a bucket."""

    clock_us = 1_000_000  # times come in whole seconds

    def __init__(self, url: str, opened: ObjectStore) -> None:
        super().__init__(url.rstrip("/"))
        self._opened = opened

    def create(self, key: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._explaining(key):
            try:
                obstore.put(self._opened, self._count(key), data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return self.read(key) == data
            return True

    def replace(self, key: str, data: bytes) -> None:
        import obstore

        with self._explaining(key):
            obstore.put(self._opened, self._count(key), data, use_multipart=False)

    def update(self, key: str, data: bytes, *, tag: str) -> bool | None:
        import obstore
        from obstore.exceptions import NotSupportedError, PreconditionError

        with self._explaining(key):
            try:
                obstore.put(self._opened, self._count(key), data, mode={"e_tag": tag}, use_multipart=False)
            except PreconditionError:
                return False
            except (NotSupportedError, NotImplementedError):
                return None
            return True

    def read(self, key: str) -> bytes:
        import obstore

        with self._explaining(key):
            found = obstore.get(self._opened, self._count(key))
            if found.meta["size"] > MAX_SMALL_BYTES:
                raise STORE_DIGEST.error(f"{self.url}/{key}: expected a small object, found a large one")
            return bytes(found.bytes())

    def find(self, key: str) -> StoredObject | None:
        import obstore

        with self._explaining(key):
            try:
                return _describe(obstore.head(self._opened, self._count(key)))
            except FileNotFoundError:
                return None

    def find_tag(self, key: str) -> str | None:
        import obstore

        with self._explaining(key):
            try:
                return obstore.head(self._opened, self._count(key))["e_tag"]
            except FileNotFoundError:
                return None

    def iter_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        import obstore

        with self._explaining(prefix):
            pages = obstore.list(self._opened, prefix, offset=after or None, chunk_size=_PAGE)
            self._count(prefix)
            for number, page in enumerate(pages):
                if number:
                    self._count(prefix)
                yield from map(_describe, page)

    def upload(self, key: str, path: Path) -> Digest:
        import obstore

        with self._explaining(key), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.seek(0, 2)
            file.seek(0)
            obstore.put(self._opened, self._count(key), file)
            found = self.find(key)
        if found is None or found.size_bytes != size:
            raise STORE_DIGEST.error(f"{self.url}/{key}: expected {size} bytes, found others")
        return f"sha256:{digest}"

    def download(self, key: str, path: Path) -> Digest:
        import obstore

        found = hashlib.sha256()
        with self._explaining(key), path.open("xb") as target:
            for piece in obstore.get(self._opened, self._count(key)).stream(min_chunk_size=_PIECE):
                data = bytes(piece)
                found.update(data)
                target.write(data)
        return f"sha256:{found.hexdigest()}"

    @contextmanager
    def _explaining(self, key: str) -> Iterator[None]:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        where = f"{self.url}/{key}"
        try:
            yield
        except FileNotFoundError as error:
            raise STORE_MISSING.error(f"{where}: expected an object, found none") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise STORE_REFUSED.error(f"{where}: expected access, found: {_say(error)}") from error
        except (BaseError, OSError) as error:
            code = STORE_REFUSED if any(word in str(error) for word in _DENIED) else STORE_UNREACHABLE
            raise code.error(f"{where}: expected an answer, found: {_say(error)}") from error


def _say(error: Exception) -> str:
    """The library's words in one line, without the dump of its own structures."""
    text = str(error).partition("\n\nDebug source")[0]
    return " ".join(text.split())[:300]


def _describe(meta: Any) -> StoredObject:
    return StoredObject(
        key=meta["path"],
        size_bytes=meta["size"],
        modified_us=int(meta["last_modified"].timestamp() * 1_000_000),
    )
