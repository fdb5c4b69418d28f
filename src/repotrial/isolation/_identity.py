"""Who programs in a sandbox are on the host: never root.

Files of the kernel under `/proc/sys` look at the user id alone, not at capabilities: with id 0 a program
inside a namespace without any capability could still rewrite `core_pattern` of the host. So a harness that
is root drops to an id that owns nothing else; then root and ordinary users take the same way.
"""

from __future__ import annotations

import functools
import grp
import os
import pwd
import socket
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.closing import Closing
from repotrial._core.errors import ErrorCode, MachineError

# No distribution hands these out: below `nobody`, above systemd's dynamic users.
_CANDIDATES: Final = range(65533, 65519, -1)
# Between those that systemd gives to home directories and its dynamic users.
_OWN_CANDIDATES: Final = range(61183, 60577, -1)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A user and a group of the host, by number."""

    uid: int
    gid: int


SANDBOX_IDENTITY = ErrorCode(
    "sandbox-identity",
    MachineError,
    "There is no unprivileged user id that a root harness could give to the programs in a sandbox.",
    hint="Run RepoTrial as an ordinary user, or free one of the user ids 65520 to 65533.",
)


def find_identity(requested: Account | None = None) -> Account:
    """The account whose rights programs in a sandbox have.

    Args:
        requested: Another account than the default; only root can choose.

    Raises:
        SANDBOX_IDENTITY: The request is root, or not ours to give; or every candidate is taken.
    """
    own = Account(uid=os.geteuid(), gid=os.getegid())
    if requested is not None:
        _verify_request(requested, own)
        return requested
    if own.uid:
        return own
    uids, gids = _load_mapped("uid_map"), _load_mapped("gid_map")
    for number in _CANDIDATES:
        if _is_free(number) and _is_mapped(number, uids) and _is_mapped(number, gids):
            return Account(uid=number, gid=number)
    raise SANDBOX_IDENTITY.error(
        f"expected a free user id between {_CANDIDATES[-1]} and {_CANDIDATES[0]}, found all taken or unmapped"
    )


class OwnAccount(Closing):
    """An account that no other sandbox on this machine has while this is open.

    What the kernel counts by user, a neighbor cannot use up then: descriptors on their way, pages of pipes,
    watches, signals. The claim is a name in the kernel, so it ends with this process however that ends.
    """

    def __init__(self, account: Account, claim: socket.socket) -> None:
        self.account = account
        self._claim = claim

    def close(self) -> None:
        """Let others have it. Idempotent."""
        self._claim.close()


def claim_account() -> OwnAccount | None:
    """An account for one sandbox; None where this harness cannot give any away, or all are in use."""
    if os.geteuid():
        return None
    for number in _list_own_numbers():
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0repotrial-account-{number}")
        except OSError:
            claim.close()
            continue
        return OwnAccount(Account(uid=number, gid=number), claim)
    return None


@functools.cache
def _list_own_numbers() -> tuple[int, ...]:
    uids, gids = _load_mapped("uid_map"), _load_mapped("gid_map")
    return tuple(
        number
        for number in _OWN_CANDIDATES
        if _is_free(number) and _is_mapped(number, uids) and _is_mapped(number, gids)
    )


def _verify_request(requested: Account, own: Account) -> None:
    if not requested.uid or not requested.gid:
        raise SANDBOX_IDENTITY.error("expected an unprivileged account for sandboxes, found root")
    if own.uid and requested != own:
        raise SANDBOX_IDENTITY.error(
            f"only root can run sandboxes as another user ({requested.uid}); this is {own.uid}"
        )


def _is_free(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        pass
    else:
        return False
    try:
        grp.getgrgid(number)
    except KeyError:
        return True
    return False


def _load_mapped(name: str) -> list[range]:
    """Which ids exist in this user namespace: a rootless container knows few."""
    rows = (line.split() for line in Path("/proc/self", name).read_text("ascii").splitlines())
    return [range(int(first), int(first) + int(count)) for first, _, count in rows]


def _is_mapped(number: int, ranges: list[range]) -> bool:
    return any(number in mapped for mapped in ranges)
