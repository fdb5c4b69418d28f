"""What the supervisor saw: programs that started and ended, refused calls, or a count of too many."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from repotrial.syscalls._classes import CallClass


class StartRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="start", gc=False):
    """A program started."""

    number: int
    """Within its sandbox, from 1; tries that failed leave gaps."""
    parent: int | None
    """The program that started it; None if the harness did."""
    replaces: int | None
    """The program that became this one in the same process."""
    command: int | None
    """The first program below the agent's own that it descends from, or is; None for the agent's own."""
    argv: tuple[str, ...]
    is_truncated: bool
    """Whether there was more than is kept, or some of it could not be read."""
    path: str
    """The file that the caller named."""
    exe: str | None
    """The file that the kernel runs."""
    copies: tuple[str, ...] = ()
    """Files of the system with the same bytes, where the file lies in a place that can be written."""
    cwd: str
    pid: int
    """As the host counts."""
    at_us: int
    is_confirmed: bool
    """Whether the kernel was seen to run it."""


class EndRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="end", gc=False):
    """A program ended."""

    number: int
    status: int | None = None
    """As `wait` gives it; None where it was not seen, or another program took its place."""
    replaced_by: int | None = None
    """The program that its process went on as."""
    at_us: int
    wall_us: int
    cpu_us: int | None
    """Of all its threads, without its children; None if it was never read."""
    cpu_is_lower_bound: bool = False


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    call: str
    """The call's name, without a prefix."""
    call_class: CallClass


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


SyscallRecord: TypeAlias = StartRecord | EndRecord | NetworkRecord | ProhibitedRecord | FloodRecord
