"""Landlock: a process gives up paths, connections and signals for itself and all that it starts.

For machines without user namespaces (L1). Needs only the standard library.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, NamedTuple

from repotrial.sandbox._launch_server._kernel import build_buffer, refuse_new_privileges, system_call

__all__ = ["LandlockRules", "LandlockState", "apply_landlock", "read_landlock_abi"]

_GET_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_AND_MAKE: Final = sum(1 << bit for bit in range(4, 13))
_MAKE_DEVICES: Final = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_ABI_1: Final = (1 << 13) - 1
_ON_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ_EXECUTE: Final = _EXECUTE | _READ_FILE | _READ_DIR
_READ_WRITE: Final = (
    _READ_EXECUTE | _WRITE_FILE | (_REMOVE_AND_MAKE & ~_MAKE_DEVICES) | _REFER | _TRUNCATE | _IOCTL_DEVICE
)
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_ABI_REFER, _ABI_TRUNCATE, _ABI_NETWORK, _ABI_IOCTL, _ABI_SCOPE = 2, 3, 4, 5, 6


class LandlockRules(NamedTuple):
    """What is left to a process; everything else is closed."""

    readable: tuple[str, ...]
    """Files and directories to read and execute; what does not exist is passed over."""
    writable: tuple[str, ...]
    """Files and directories to change as well; these exist."""


class LandlockState(NamedTuple):
    """What this kernel closes besides paths."""

    abi: int
    has_network: bool
    """TCP, in both directions; never UDP."""
    has_scope: bool
    """Signals to, and abstract sockets of, processes outside."""


def read_landlock_abi() -> int:
    """Which version of Landlock is here; 0 for none."""
    try:
        return system_call("landlock_create_ruleset", None, 0, _GET_VERSION)
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EOPNOTSUPP}:
            return 0
        raise


def apply_landlock(rules: LandlockRules) -> LandlockState:
    """Close everything but the rules, for this process and all that it becomes; there is no way back.

    Raises:
        OSError: The kernel has no Landlock, or a writable path does not exist.
    """
    abi = read_landlock_abi()
    if abi == 0:
        raise OSError(errno.EOPNOTSUPP, "this kernel has no Landlock")
    state = LandlockState(abi, abi >= _ABI_NETWORK, abi >= _ABI_SCOPE)
    handled = _build_handled(abi)
    network = _BIND_TCP | _CONNECT_TCP if state.has_network else 0
    scope = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if state.has_scope else 0
    # Older kernels refuse a structure that is longer than theirs, unless the rest is zero.
    attributes = build_buffer("=QQQ", handled, network, scope)
    ruleset = system_call("landlock_create_ruleset", attributes, len(attributes), 0)
    for path in rules.readable:
        _add_path(ruleset, path, _READ_EXECUTE & handled, is_required=False)
    for path in rules.writable:
        _add_path(ruleset, path, _READ_WRITE & handled, is_required=True)
    refuse_new_privileges()
    system_call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)
    return state


def _build_handled(abi: int) -> int:
    handled = _ALL_OF_ABI_1
    for since, access in ((_ABI_REFER, _REFER), (_ABI_TRUNCATE, _TRUNCATE), (_ABI_IOCTL, _IOCTL_DEVICE)):
        if abi >= since:
            handled |= access
    return handled


def _add_path(ruleset: int, path: str, access: int, *, is_required: bool) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if is_required:
            raise
        return
    try:
        allowed = access if stat.S_ISDIR(os.fstat(descriptor).st_mode) else access & _ON_FILES
        system_call("landlock_add_rule", ruleset, _PATH_BENEATH, build_buffer("=Qi", allowed, descriptor), 0)
    finally:
        os.close(descriptor)
