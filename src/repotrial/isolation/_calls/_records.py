"""What the supervisor saw: one record for each call that reached it, or a count where there were too many."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from repotrial.isolation._launch_server._syscalls import CallClass


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    call: str
    """The call's name, without a prefix."""
    call_class: CallClass


class ExecRecord(_Record, frozen=True, kw_only=True, tag="exec"):
    """A program was about to be started. Told by the program that asked, so evidence but no proof."""

    at_us: int
    pid: int
    """As the host counts."""
    path: str
    argv: tuple[str, ...]
    cwd: str
    is_truncated: bool
    """Whether there was more than is kept, or some of it could not be read."""


class NetworkRecord(_Record, frozen=True, kw_only=True, tag="network"):
    """An address beyond the sandbox was tried, and refused."""

    at_us: int
    pid: int
    address: str
    """Host and port."""
    error: str
    """What the program was told, as the kernel names errors."""


class ProhibitedRecord(_Record, frozen=True, kw_only=True, tag="prohibited"):
    """A prohibited call was tried, and refused."""

    at_us: int
    pid: int
    arguments: tuple[str, ...]
    """In the order of the call; text where the argument pointed at text that could be read."""
    error: str


class FloodRecord(_Record, frozen=True, kw_only=True, tag="flood"):
    """The same call came too often for a record each; every one of these was answered as always."""

    first_us: int
    last_us: int
    count: int
    """How many are not recorded one by one."""


SyscallRecord: TypeAlias = ExecRecord | NetworkRecord | ProhibitedRecord | FloodRecord
