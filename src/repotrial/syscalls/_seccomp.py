"""The syscall filter: a policy becomes a program that the kernel runs before every call.

Checks of arguments that are plain numbers (socket families, flags of `clone`, terminal commands) happen in
the program itself, so ordinary calls never wait. What it does not let through goes to the
supervisor, or, without one, fails with the error of its class.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.syscalls._classes import (
    GRANTABLE,
    OBSOLETE,
    PROHIBITED,
    Machine,
    build_numbers,
)

ALLOW: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
KILL: Final = 0x80000000
_ERROR: Final = 0x00050000

NUMBER: Final = 0
"""Where the call's number stands in what the kernel shows to the filter."""
ARCHITECTURE: Final = 4

_LOAD, _MASK, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT = 0x05, 0x15, 0x35, 0x45
_SHORT_JUMP: Final = 255
"""Conditional jumps have eight bits for their distance."""


class _Instruction(NamedTuple):
    code: int
    if_true: int
    if_false: int
    value: int


Block: TypeAlias = tuple[_Instruction, ...]


def encode(block: Block) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in block)


def argument_low(index: int) -> int:
    """Where the lower half of an argument stands; both architectures are little-endian."""
    return 16 + 8 * index


def argument_high(index: int) -> int:
    return argument_low(index) + 4


def give(action: int) -> Block:
    return (_Instruction(_RETURN, 0, 0, action),)


def refuse(error: int) -> Block:
    return give(_ERROR | error)


def load(offset: int, then: Block) -> Block:
    return (_Instruction(_LOAD, 0, 0, offset), *then)


def mask(bits: int, then: Block) -> Block:
    return (_Instruction(_MASK, 0, 0, bits), *then)


def equals(value: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_EQUAL, value, then=then, otherwise=otherwise)


def at_least(value: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_AT_LEAST, value, then=then, otherwise=otherwise)


def has_any_bit(bits: int, then: Block, otherwise: Block) -> Block:
    return _branch(_JUMP_ANY_BIT, bits, then=then, otherwise=otherwise)


def switch(ranges: Sequence[tuple[int, Block]]) -> Block:
    """A binary search: the block of the last range that begins at or below the value.

    Args:
        ranges: Beginnings in ascending order; the first one is taken to begin at zero.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    return at_least(ranges[middle][0], then=switch(ranges[middle:]), otherwise=switch(ranges[:middle]))


def _branch(code: int, value: int, *, then: Block, otherwise: Block) -> Block:
    if len(then) <= _SHORT_JUMP:
        return (_Instruction(code, 0, len(then), value), *then, *otherwise)
    return (_Instruction(code, 1, 0, value), _Instruction(_JUMP, 0, 0, len(then)), *then, *otherwise)


_AUDIT_ARCHITECTURE: Final[Mapping[Machine, int]] = MappingProxyType(
    {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
)
_ABSENT: Final = refuse(errno.ENOSYS)
_ALLOW: Final = give(ALLOW)
_NOTIFY: Final = give(NOTIFY)
_DENIED: Final = refuse(errno.EPERM)

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_RAW, _SOCK_SEQPACKET = 1, 2, 3, 5
_SOCK_TYPE_MASK: Final = 0xF
_NETLINK_ROUTE: Final = 0
_NAMESPACE_FLAGS: Final = 0x7E020000
"""CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID and -NET; -TIME exists only for `unshare` and `clone3`."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
_QUERY_PERSONALITY: Final = 0xFFFFFFFF
_INIT_PID: Final = 1
_ARCH_SET_FS: Final = 0x1002
_RLIMIT_LOCKS: Final = 10
_PR_SET_MM: Final = 35

_FAMILY_NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {"unix": _AF_UNIX, "inet": _AF_INET, "inet6": _AF_INET6, "netlink": _AF_NETLINK}
)


SYSTEM_CALL_GRANT = ErrorCode(
    "system-call-grant",
    ContractError,
    "A contract asks for a system call that does not exist or that no contract may have.",
    hint=f"A contract may ask for: {', '.join(sorted(GRANTABLE))}.",
)


class SyscallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What programs inside a sandbox may ask of the kernel."""

    audit: Literal["notify", "static"] = "notify"
    """`notify`: what is refused is seen by a supervisor; `static`: it fails, and is not seen."""
    granted: tuple[str, ...] = ()
    """Calls beyond the default profile (C3)."""
    families: tuple[Literal["unix", "inet", "inet6", "netlink"], ...] = ("unix", "inet", "inet6", "netlink")
    """Kinds of sockets that can be made; netlink only for routes. Connected pairs can be made in any case."""
    has_witness: bool = True
    """Whether the supervisor sees every program that starts."""
    has_memory_files: bool = True
    """Whether memory can be had as a file without a name; only where something counts it."""
    has_network_watch: bool = True
    """Whether the supervisor sees addresses that programs try to reach."""


def build_filter(policy: SyscallPolicy, *, machine: Machine) -> bytes:
    """The program for one architecture; every other one is killed.

    Raises:
        SYSTEM_CALL_GRANT: The policy grants what cannot be granted.
    """
    verify_grants(policy.granted)
    ranges: list[tuple[int, Block]] = []
    numbers = sorted((number, name) for name, number in build_numbers(machine).items())
    expected = 0
    for number, name in numbers:
        if number != expected:
            _append_range(ranges, expected, _ABSENT)
        _append_range(ranges, number, _decide(policy, name, machine))
        expected = number + 1
    # Also x32, which counts from 0x40000000, and whatever a later kernel adds.
    _append_range(ranges, expected, _ABSENT)
    by_number = load(NUMBER, switch(ranges))
    architecture = equals(_AUDIT_ARCHITECTURE[machine], by_number, give(KILL))
    return encode(load(ARCHITECTURE, architecture))


def verify_grants(names: tuple[str, ...]) -> None:
    """Refuse grants of calls that are unknown, or that would loosen another layer.

    Raises:
        SYSTEM_CALL_GRANT: Naming the first such call.
    """
    for name in names:
        if name in GRANTABLE:
            continue
        known = name in build_numbers("x86_64") or name in build_numbers("aarch64")
        if known and name not in PROHIBITED:
            continue
        problem = "is never granted" if known else "is not the name of a system call"
        raise SYSTEM_CALL_GRANT.error(f"system_calls: {name!r} {problem}")


def _append_range(ranges: list[tuple[int, Block]], start: int, block: Block) -> None:
    if not ranges or ranges[-1][1] != block:
        ranges.append((start, block))


def _decide(policy: SyscallPolicy, name: str, machine: Machine) -> Block:
    # Its flags are in memory, out of a filter's sight; C libraries fall back to `clone`.
    if name == "clone3" or name in OBSOLETE:
        return _ABSENT
    is_watched = policy.audit == "notify"
    if name in _WITNESSED:
        return _WITNESSED[name](machine) if is_watched and policy.has_witness else _ALLOW
    if name in {"connect", "sendto"}:
        watch = _NOTIFY if name == "connect" else _watch_sendto()
        return watch if is_watched and policy.has_network_watch else _ALLOW
    if name in _SHARED:
        return _SHARED[name]
    if name in _MEMORY_FILES and not policy.has_memory_files:
        return _ABSENT
    if name not in PROHIBITED:
        return _ALLOW
    refusal = _NOTIFY if is_watched else refuse(PROHIBITED[name].error)
    if name == "socketpair" and "unix" not in policy.families:
        return _check_pair(refusal)
    if name in {"socket", "socketpair"}:
        return _check_socket(policy, refusal)
    if name in policy.granted:
        return _GUARDS[name](refusal) if name in _GUARDS else _ALLOW
    return _CHECKS[name](refusal) if name in _CHECKS else refusal


def _answer_for(index: int, values: tuple[int, ...], answer: Block) -> Block:
    """An answer where an argument has one of these values."""
    decision = _ALLOW
    for value in values:
        decision = equals(value, answer, decision)
    return load(argument_low(index), decision)


_F_SETLEASE: Final = 1024
_FADVISE_DONTNEED: Final = 4
_MADVISE_COLD, _MADVISE_PAGEOUT = 20, 21
_PRETEND: Final = refuse(0)
"""The caller is told that it is done: advice may be ignored."""
_SHARED: Final[Mapping[str, Block]] = MappingProxyType(
    {
        # An open of a leased file waits for its holder.
        "fcntl": _answer_for(1, (_F_SETLEASE,), refuse(errno.EINVAL)),
        # What of a file is in the machine's memory: a later run can be told by it.
        "mincore": _ABSENT,
        "cachestat": _ABSENT,
        "preadv2": load(argument_low(5), equals(0, _ALLOW, refuse(errno.EOPNOTSUPP))),
        "pwritev2": load(argument_low(5), equals(0, _ALLOW, refuse(errno.EOPNOTSUPP))),
        "fadvise64": _answer_for(3, (_FADVISE_DONTNEED,), _PRETEND),
        "madvise": _answer_for(2, (_MADVISE_COLD, _MADVISE_PAGEOUT), _PRETEND),
        "process_madvise": _DENIED,
    }
)
"""Calls by which a program stops others over a shared file, or reads or leaves a mark in one. Marks get
slower by it and do not end: the time of a read tells the same."""
_MEMORY_FILES: Final = frozenset({"memfd_create", "memfd_secret"})


def _hold(_: Machine) -> Block:
    return _NOTIFY


def _watch_start(name: str) -> Callable[[Machine], Block]:
    """The first call that a C library makes in a new program: another one on each architecture."""

    def decide(machine: Machine) -> Block:
        if (machine, name) == ("x86_64", "arch_prctl"):
            return load(argument_low(0), equals(_ARCH_SET_FS, _NOTIFY, _ALLOW))
        return _NOTIFY if (machine, name) == ("aarch64", "set_tid_address") else _ALLOW

    return decide


def _keep_number(limit: int, change: int | None) -> Callable[[Machine], Block]:
    """The limit that carries a program's number can be read and not be changed from inside."""

    def decide(_: Machine) -> Block:
        if change is None:
            refusal = _DENIED
        else:
            high = load(argument_high(change), equals(0, _ALLOW, _DENIED))
            refusal = load(argument_low(change), equals(0, high, _DENIED))
        return load(argument_low(limit), equals(_RLIMIT_LOCKS, refusal, _ALLOW))

    return decide


def _keep_places(_: Machine) -> Block:
    """Where the kernel put a program tells one start from another."""
    return load(argument_low(0), equals(_PR_SET_MM, _DENIED, _ALLOW))


_WITNESSED: Final[Mapping[str, Callable[[Machine], Block]]] = MappingProxyType(
    {
        "execve": _hold,
        "execveat": _hold,
        "arch_prctl": _watch_start("arch_prctl"),
        "set_tid_address": _watch_start("set_tid_address"),
        "prctl": _keep_places,
        "setrlimit": _keep_number(0, None),
        "prlimit64": _keep_number(1, 2),
    }
)
"""What the witness needs to see, or needs to be left alone."""


def _watch_sendto() -> Block:
    """Only with a destination: on connected sockets the pointer is null."""
    high = load(argument_high(4), equals(0, _ALLOW, _NOTIFY))
    return load(argument_low(4), equals(0, high, _NOTIFY))


def _check_socket(policy: SyscallPolicy, refusal: Block) -> Block:
    types = _one_of((_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET), refusal)
    ordinary = load(argument_low(1), mask(_SOCK_TYPE_MASK, types))
    decision = refusal
    for family in policy.families:
        then = _check_netlink(refusal) if family == "netlink" else ordinary
        decision = equals(_FAMILY_NUMBERS[family], then, decision)
    return load(argument_low(0), decision)


def _check_pair(refusal: Block) -> Block:
    """Two ends that know only each other; one for datagrams could still be connected elsewhere."""
    types = _one_of((_SOCK_STREAM, _SOCK_SEQPACKET), refusal)
    ordinary = load(argument_low(1), mask(_SOCK_TYPE_MASK, types))
    return load(argument_low(0), equals(_AF_UNIX, ordinary, refusal))


def _check_netlink(refusal: Block) -> Block:
    """Routes only, which resolvers read; there a raw socket is the ordinary kind."""
    routes = load(argument_low(2), equals(_NETLINK_ROUTE, _ALLOW, refusal))
    types = equals(_SOCK_RAW, routes, equals(_SOCK_DGRAM, routes, refusal))
    return load(argument_low(1), mask(_SOCK_TYPE_MASK, types))


def _one_of(values: tuple[int, ...], refusal: Block) -> Block:
    decision = refusal
    for value in values:
        decision = equals(value, _ALLOW, decision)
    return decision


def _check_clone(refusal: Block) -> Block:
    return load(argument_low(0), has_any_bit(_NAMESPACE_FLAGS, refusal, _ALLOW))


def _check_ioctl(refusal: Block) -> Block:
    commands = equals(_TIOCSTI, refusal, equals(_TIOCLINUX, refusal, _ALLOW))
    return load(argument_low(1), commands)


def _check_personality(refusal: Block) -> Block:
    return load(argument_low(0), equals(_QUERY_PERSONALITY, _ALLOW, refusal))


def _guard_ptrace(refusal: Block) -> Block:
    """Attaching to PID 1 would stop the sandbox itself."""
    target = load(argument_low(1), equals(_INIT_PID, refusal, _ALLOW))
    requests = equals(_PTRACE_ATTACH, target, equals(_PTRACE_SEIZE, target, _ALLOW))
    return load(argument_low(0), requests)


def _guard_memory(refusal: Block) -> Block:
    return load(argument_low(0), equals(_INIT_PID, refusal, _ALLOW))


_CHECKS: Final[Mapping[str, Callable[[Block], Block]]] = MappingProxyType(
    {"clone": _check_clone, "ioctl": _check_ioctl, "personality": _check_personality}
)
"""Prohibited calls of which only some arguments are prohibited."""

_GUARDS: Final[Mapping[str, Callable[[Block], Block]]] = MappingProxyType(
    {"ptrace": _guard_ptrace, "process_vm_readv": _guard_memory, "process_vm_writev": _guard_memory}
)
"""Granted calls that still have a limit."""
