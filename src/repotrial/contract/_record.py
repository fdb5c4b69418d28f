"""The contract as a run keeps it: enough to judge the run on another machine, nothing hidden in it.

The texts of hidden checks and of the reference are not part of it; their digests are, in the lock.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._contract import Contract
from repotrial.contract._loaded import LoadedContract
from repotrial.contract._lock import ContractLock
from repotrial.contract._types import Document
from repotrial.contract._version import compute_scoring_digest, compute_version_id

CONTRACT_RECORD_SCHEMA = "repotrial/contract-record@1"


CONTRACT_RECORD = ErrorCode(
    "contract-record",
    ContractError,
    "A run's copy of its contract cannot be read, or is not the contract that its lock pins.",
    hint="take the run directory as the harness sealed it; nothing in it may be edited",
)


class ContractRecord(Document, frozen=True, kw_only=True):
    """All of `contract.json` in a run directory."""

    schema: Literal["repotrial/contract-record@1"] = "repotrial/contract-record@1"
    """Which version of this format."""
    contract: Contract
    """The contract."""
    lock: ContractLock
    """What it was locked to."""

    def to_bytes(self) -> bytes:
        """The record as a file; `parse_record` reads it back."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1) + b"\n"


def build_record(loaded: LoadedContract, lock: ContractLock) -> ContractRecord:
    """What a run on this contract keeps of it."""
    return ContractRecord(contract=loaded.contract, lock=lock)


def parse_record(data: bytes) -> ContractRecord:
    """Read a record and hold it against its own lock.

    Raises:
        CONTRACT_RECORD: the bytes are no record, or contract and lock do not belong together.
    """
    try:
        record = msgspec.json.decode(data, type=ContractRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CONTRACT_RECORD.error(
            f"expected a {CONTRACT_RECORD_SCHEMA} document, found: {error}"
        ) from error
    lock = record.lock
    found = compute_version_id(record.contract, pin=lock.repository, files=lock.files)
    if found != lock.version_id:
        raise CONTRACT_RECORD.error(f"expected the contract version {lock.version_id}, found {found}")
    scoring = compute_scoring_digest(record.contract)
    if scoring != lock.scoring_digest:
        raise CONTRACT_RECORD.error(f"expected the scoring parameters {lock.scoring_digest}, found {scoring}")
    return record
