"""What Setup reached over the network, and what came of it: kept beside the base that it made (C12, P9)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count, canonical_digest, dump_checked
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.files import write_atomic

SetupVerdict: TypeAlias = Literal["passed", "replayed", "refused", "failed"]
"""`refused`: by the policy; `failed`: allowed, without an answer."""

_MAX_BYTES: Final = 64 * 1024**2
_FORMAT: Final = "repotrial/setup-product@1"


SETUP_RECORD_UNREADABLE = ErrorCode(
    "setup-record-unreadable",
    EvidenceError,
    "What a prepared base says about the network that made it cannot be read.",
    hint="remove the base with `repotrial cache prune`, and find out what wrote there",
)


class SetupAttempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt of a step to reach something, when it was over."""

    step: str = ""
    """The step's name, or its position."""
    host: str
    """As it was asked for; empty where it could not be read."""
    port: Count
    """Zero where there was none."""
    way: Literal["http", "https", "tunnel", "direct"]
    """`direct`: past the proxy, which leads nowhere."""
    method: str
    """Of the request; the system call of a direct attempt."""
    path: str
    """Path and query; empty if they were not read."""
    verdict: SetupVerdict
    """What came of it."""
    reason: str = ""
    """Why not, where it did not pass."""
    status: Count | None = None
    """Of the answer; None if there was none."""
    sent_bytes: Count = 0
    """From the sandbox."""
    received_bytes: Count = 0
    """Towards it."""


class SetupAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps of one Setup tried, in the order in which it was over."""

    kept: tuple[SetupAttempt, ...]
    left_out: int
    """How many there were beyond what is kept."""


class SetupNetworkRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network of one Setup; it stays with the product for later uses."""

    schema: Literal["repotrial/setup-network@1"] = "repotrial/setup-network@1"
    """Which version of this format."""
    product_digest: Digest
    """Over the tree as Setup left it, without its history, and over everything that steps keep elsewhere."""
    previous_digest: Digest | None
    """Of the product that the same Setup made here before, where that was another one."""
    attempts: tuple[SetupAttempt, ...]
    """What steps tried to reach."""
    left_out: Count
    """How many attempts there were beyond these."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Who answered, in order of name."""
        answered = (item for item in self.attempts if item.verdict in {"passed", "replayed"})
        return tuple(sorted({f"{item.host}:{item.port}" for item in answered}))


def build_product_digest(tree: Digest, outputs: Digest) -> Digest:
    """One digest for what Setup made, from those of its two places."""
    return canonical_digest({"format": _FORMAT, "tree": tree, "outputs": outputs})


def write_setup_record(
    path: Path, attempts: SetupAttempts, *, product: Digest, previous: Digest | None
) -> None:
    """Keep what a Setup with network did.

    Args:
        path: Where.
        attempts: What it tried.
        product: Digest of what it made.
        previous: Digest of what it made here the last time; None if there was none.
    """
    record = SetupNetworkRecord(
        product_digest=product,
        previous_digest=None if previous == product else previous,
        attempts=attempts.kept,
        left_out=attempts.left_out,
    )
    write_atomic(path, dump_checked(msgspec.to_builtins(record)) + b"\n", mode=0o600)


def load_setup_record(path: Path) -> SetupNetworkRecord | None:
    """Read it back; None if Setup had no network.

    Raises:
        SETUP_RECORD_UNREADABLE: it is not what was written.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=SetupNetworkRecord)
    except msgspec.MsgspecError as error:
        raise SETUP_RECORD_UNREADABLE.error(f"{path}: expected a record of ours, found: {error}") from error
