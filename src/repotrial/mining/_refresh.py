"""`contract refresh`: packages of today for an aged lock, as a new version that names the one before."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.files import write_atomic
from repotrial.authoring import LockResult, Proof, ProofSettings, lock_contract, prove_contract
from repotrial.contract import Inventory, LoadedContract, build_lock, load_contract
from repotrial.environment import parse_requirements

LINEAGE_FILE: Final = "contract.lineage.json"
_DIRECT: Final = re.compile(r"^\s*#\s*via\s+-r\b|^\s*#\s+-r\b", re.MULTILINE)
_SHOWN: Final = 3


REFRESH_REFUSED = ErrorCode(
    "refresh-refused",
    ContractError,
    "The packages of a contract cannot be renewed: there are none, or its checks say something else then.",
    hint="leave the lock as it is, or make one by hand and certify the contract again",
)


class LineageEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A version before, and why there is another one."""

    version_id: Digest
    reason: str
    refreshed_at_us: int
    """In microseconds since 1970."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """All of `contract.lineage.json`: the versions before this one, oldest first."""

    schema: Literal["repotrial/lineage@1"] = "repotrial/lineage@1"
    before: tuple[LineageEntry, ...] = ()


def refresh_contract(directory: Path, proving: ProofSettings, *, reason: str, today: dt.date) -> LockResult:
    """Lock the packages of today, if the checks say the same with them; the certificate is stale afterwards.

    Args:
        directory: A locked contract with a reference and a lock of Python packages.
        proving: Where and how often its tests are run.
        reason: Why; it is kept.
        today: As of which the index is asked.

    Raises:
        REFRESH_REFUSED: there is nothing to renew, or something speaks against it.
    """
    loaded = load_contract(directory)
    python = loaded.contract.environment.python
    if python is None or loaded.lock is None or loaded.reference is None:
        raise REFRESH_REFUSED.error(
            f"{directory}: expected a locked contract with Python packages and a reference, found none"
        )
    old = (directory / python.lock).read_bytes()
    locked = proving.locker.lock(_list_direct(old, python.lock), cutoff=today)
    if isinstance(locked, NotComputable):
        raise REFRESH_REFUSED.error(f"{directory}: expected packages of today, found none: {locked.reason}")
    _verify_same(loaded, python.lock, locked.data, proving)
    before = loaded.lock.version_id
    write_atomic(directory / python.lock, locked.data)
    result = lock_contract(directory)
    if result.lock.version_id != before:
        _append_lineage(directory, before, reason)
    return result


def _list_direct(data: bytes, name: str) -> tuple[str, ...]:
    """Packages that were asked for, where the lock says so; else all of them."""
    names = [item.name for item in parse_requirements(data, name)]
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", data.decode())
    direct = [block.partition("==")[0].strip() for block in blocks if _DIRECT.search(block)]
    wanted = {re.sub(r"\[.*", "", each).lower() for each in direct}
    chosen = [each for each in names if each.lower() in wanted] or names
    return tuple(sorted(chosen))


def _verify_same(loaded: LoadedContract, lock: str, data: bytes, proving: ProofSettings) -> None:
    """Run the first check with the new packages: every test of the inventory does what it did."""
    check = loaded.contract.checks[0]
    with tempfile.TemporaryDirectory(prefix="repotrial-refresh-") as place:
        copy = Path(place) / "contract"
        shutil.copytree(loaded.directory, copy, symlinks=True)
        (copy / lock).write_bytes(data)
        tried = load_contract(copy, lock_ignored=True)
        assert loaded.lock is not None
        pinned = replace(tried, lock=build_lock(tried, loaded.lock.repository))
        found = prove_contract(pinned, proving, test_files=list_test_files(loaded))
    if not isinstance(found, Proof):
        raise REFRESH_REFUSED.error(
            f"{loaded.directory}: expected tests that turn with the new packages, found {found.describe()}"
        )
    wanted = loaded.inventories.get(check.id, Inventory(fail_to_pass=()))
    lost = {*wanted.fail_to_pass} - {*found.inventory.fail_to_pass}
    lost |= {*wanted.pass_to_pass} - {*found.inventory.pass_to_pass}
    if lost:
        named = ", ".join(sorted(lost)[:_SHOWN])
        raise REFRESH_REFUSED.error(
            f"{loaded.directory}: expected every test to do what it did, found {len(lost)} others: {named}"
        )


def list_test_files(loaded: LoadedContract) -> tuple[str, ...]:
    """Where the first check's oracle files go, from its working directory."""
    check = loaded.contract.checks[0]
    at = "" if check.cwd == "." else f"{check.cwd.rstrip('/')}/"
    return tuple(
        pin.path.removeprefix(f"{overlay.source.rstrip('/')}/").removeprefix(at)
        for overlay in check.files
        for pin in loaded.files
        if pin.path.startswith(f"{overlay.source.rstrip('/')}/")
    )


def _append_lineage(directory: Path, version_id: Digest, reason: str) -> None:
    path = directory / LINEAGE_FILE
    lineage = msgspec.json.decode(path.read_bytes(), type=Lineage) if path.is_file() else Lineage()
    entry = LineageEntry(version_id=version_id, reason=reason, refreshed_at_us=SystemClock().now_us())
    data = msgspec.json.encode(msgspec.structs.replace(lineage, before=(*lineage.before, entry)))
    write_atomic(path, msgspec.json.format(data, indent=2) + b"\n")
