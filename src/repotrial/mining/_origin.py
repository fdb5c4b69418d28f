"""Where a mined contract is from, and whether a person has read and approved its statement (C9)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.files import write_atomic
from repotrial.contract import STATEMENT_FILE
from repotrial.mining._rows import StatementSource

ORIGIN_FILE: Final = "mined.json"


class StatementApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A person's yes to one statement, word for word."""

    by: str
    at_us: int
    """In microseconds since 1970."""
    statement_digest: Digest
    """The very bytes that were approved."""


class MinedOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The change that a contract was mined from, and a person's yes to its statement."""

    commit: str
    statement_source: StatementSource
    approval: StatementApproval | None = None

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """None where the contract was not mined; a damaged file is an origin without a yes."""
        try:
            return msgspec.json.decode((directory / ORIGIN_FILE).read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError):
            return cls(commit="", statement_source="person")

    def write(self, directory: Path) -> None:
        """Put it beside the contract."""
        data = msgspec.json.format(msgspec.json.encode(self), indent=2)
        write_atomic(directory / ORIGIN_FILE, data + b"\n")

    def approve(self, directory: Path, *, by: str) -> None:
        """Record a person's yes to the statement that lies there now."""
        approval = StatementApproval(by=by, at_us=SystemClock().now_us(), statement_digest=_digest(directory))
        msgspec.structs.replace(self, approval=approval).write(directory)

    @classmethod
    def find_doubt(cls, directory: Path) -> str | None:
        """Why a mined contract may not count: it needs a yes to the statement as it is now; None if it may.

        A contract that was written by a person from the start needs none.
        """
        origin = cls.load(directory)
        if origin is None:
            return None
        if origin.approval is None:
            return "no person has approved the statement"
        if origin.approval.statement_digest != _digest(directory):
            return f"the statement was changed after {origin.approval.by} approved it"
        return None


def _digest(directory: Path) -> Digest:
    return digest_bytes((directory / STATEMENT_FILE).read_bytes())
