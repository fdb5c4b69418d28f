"""A time stamp of others (RFC 3161) over a registration: it shows that the plan came before the runs (B5).

The request is written when a pilot is frozen. Sending it to an authority is the user's step.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial._core.files import write_atomic

_LIBRARY: Final = "rfc3161_client"
_MOST_BYTES: Final = 2**20

STAMP_LIBRARY_MISSING = ErrorCode(
    "stamp-library-missing",
    UsageError,
    "Time stamps need a library that is not installed.",
    hint="install the extra: pip install 'repotrial[timestamp]'",
)
STAMP_REFUSED = ErrorCode(
    "stamp-refused",
    EvidenceError,
    "A time stamp does not hold: it is of another registration, of another authority, or no stamp at all.",
    hint="send the registration's own .tsq to the authority again, and name the authority's root certificate",
)


class TimeStamp(msgspec.Struct, frozen=True, kw_only=True):
    """What an authority says of a registration."""

    file: str
    """The response, beside the registration."""
    stamped_at: str
    """When, by the authority's clock, in UTC."""
    authority: Digest
    """Digest of the root certificate that was believed."""


def name_stamp(version: int) -> str:
    """The files of a version, without their endings."""
    return "registration" if version == 1 else f"registration-{version}"


def write_request(directory: Path, version: int, registration: bytes) -> Path | None:
    """Write the request over a registration; None if the library is not installed."""
    if importlib.util.find_spec(_LIBRARY) is None:
        return None
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    builder = TimestampRequestBuilder().data(registration).hash_algorithm(HashAlgorithm.SHA256)
    path = directory / f"{name_stamp(version)}.tsq"
    write_atomic(path, builder.cert_request(cert_request=True).build().as_bytes())
    return path


def take_response(
    directory: Path, version: int, registration: bytes, *, response: Path, authority: Path
) -> TimeStamp:
    """Verify a response, and keep it with the authority's root certificate beside the registration.

    Raises:
        STAMP_LIBRARY_MISSING: the extra is not installed.
        STAMP_REFUSED: it does not hold.
    """
    data, root = _read(response), _read(authority)
    name = name_stamp(version)
    stamp = _verify(f"{name}.tsr", registration, data, root)
    write_atomic(directory / f"{name}.tsr", data)
    write_atomic(directory / f"{name}.tsa.pem", root)
    return stamp


def find_stamp(directory: Path, version: int, registration: bytes) -> TimeStamp | None:
    """The stamp of a registration, verified again; None if there is none.

    Raises:
        STAMP_LIBRARY_MISSING: there is one, and the extra is not installed.
        STAMP_REFUSED: it does not hold.
    """
    name = name_stamp(version)
    path = directory / f"{name}.tsr"
    if not path.is_file():
        return None
    return _verify(path.name, registration, _read(path), _read(directory / f"{name}.tsa.pem"))


def describe_stamp(directory: Path, version: int, registration: bytes) -> Iterator[str]:
    """The stamp in a sentence; nothing if there is none or it cannot be verified here."""
    try:
        stamp = find_stamp(directory, version, registration)
    except UsageError as error:
        yield f"the time stamp was not verified: {error.message}"
        return
    if stamp is not None:
        yield f"stamped at {stamp.stamped_at}; root certificate {stamp.authority}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        raise STAMP_REFUSED.error(f"{path}: expected a file, found: {error.strerror}") from error


def _verify(name: str, registration: bytes, data: bytes, root: bytes) -> TimeStamp:
    if importlib.util.find_spec(_LIBRARY) is None:
        raise STAMP_LIBRARY_MISSING.error(f"{name}: expected rfc3161-client, found none")
    from cryptography import x509
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    try:
        response = decode_timestamp_response(data)
        verifier = VerifierBuilder(roots=[x509.load_pem_x509_certificate(root)]).build()
        verifier.verify_message(response, registration)
    except (ValueError, VerificationError) as error:
        raise STAMP_REFUSED.error(
            f"{name}: expected a stamp over the registration, found: {error}"
        ) from error
    return TimeStamp(
        file=name,
        stamped_at=response.tst_info.gen_time.isoformat(),
        authority=digest_bytes(root),
    )
