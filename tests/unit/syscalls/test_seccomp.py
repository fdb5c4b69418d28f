from __future__ import annotations

import errno
from itertools import product
from typing import Final, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.syscalls import SyscallPolicy, build_filter, build_numbers, verify_grants
from repotrial.syscalls._classes import GRANTABLE, OBSOLETE, PROHIBITED, CallClass, Machine
from support.bpf import ALLOW, KILL, NOTIFY, Filter
from support.errors import raises_code

ARCHITECTURES: Final[dict[Machine, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES: Final[tuple[Machine, ...]] = get_args(Machine)
ABSENT: Final = str(errno.ENOSYS)
LATER: Final = range(0x40000000, 0x40000000 + 600)
# What the numbers 0 to 600 and those of x32 do with all arguments zero, whatever the policy.
PARTIAL: Final = {"clone": 0, "ioctl": 0, "personality": 0xFFFFFFFF, "socket": 1, "socketpair": 1}
NAMESPACE_BITS: Final = (17, 25, 26, 27, 28, 29, 30)


def build(machine: Machine, policy: SyscallPolicy) -> Filter:
    return Filter.parse(build_filter(policy, machine=machine))


def every_policy(audit: Literal["notify", "static"]) -> list[SyscallPolicy]:
    grants: tuple[tuple[str, ...], ...] = ((), ("ptrace",), ("personality",), tuple(sorted(GRANTABLE)))
    return [
        SyscallPolicy(
            audit=audit,
            granted=granted,
            has_witness=witness,
            has_network_watch=watch,
            has_memory_files=witness,
        )
        for granted, witness, watch in product(grants, (True, False), (True, False))
    ]


def harmless_arguments(name: str) -> tuple[int, ...]:
    first = PARTIAL.get(name, 0)
    return (first, 1, 0) if name in {"socket", "socketpair"} else (first,)


def expected(name: str, policy: SyscallPolicy, machine: Machine) -> str:
    """The rule in plain words, written apart from the program that it judges."""
    is_seen = policy.audit == "notify"
    if name == "clone3" or name in OBSOLETE:
        return ABSENT
    if name in {"execve", "execveat"} or (machine == "aarch64" and name == "set_tid_address"):
        return NOTIFY if is_seen and policy.has_witness else ALLOW
    if name == "connect":
        return NOTIFY if is_seen and policy.has_network_watch else ALLOW
    if name in {"mincore", "cachestat"}:
        return ABSENT
    if name == "process_madvise":
        return str(errno.EPERM)
    if name in {"memfd_create", "memfd_secret"} and not policy.has_memory_files:
        return ABSENT
    if name in PARTIAL or name not in PROHIBITED or name in policy.granted:
        return ALLOW
    return NOTIFY if is_seen else str(PROHIBITED[name].error)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("audit", ["notify", "static"])
def test_every_number_does_what_its_name_deserves(
    machine: Machine, audit: Literal["notify", "static"]
) -> None:
    names = {number: name for name, number in build_numbers(machine).items()}
    for policy in every_policy(audit):
        program = build(machine, policy)
        for number in (*range(601), *LATER, 0x7FFFFFFF, 0xFFFFFFFF):
            name = names.get(number)
            found = program.run(
                ARCHITECTURES[machine], number, harmless_arguments(name) if name is not None else ()
            )
            wanted = ABSENT if name is None else expected(name, policy, machine)
            assert found == wanted, (machine, policy, number, name)


@pytest.mark.parametrize("machine", MACHINES)
@given(
    number=st.one_of(st.integers(0, 600), st.sampled_from(LATER), st.integers(0, 2**32 - 1)),
    arguments=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6),
    granted=st.sets(st.sampled_from(sorted(GRANTABLE))),
    audit=st.sampled_from(["notify", "static"]),
)
def test_no_arguments_open_a_prohibited_call(
    machine: Machine,
    number: int,
    arguments: list[int],
    granted: set[str],
    audit: Literal["notify", "static"],
) -> None:
    policy = SyscallPolicy(audit=audit, granted=tuple(sorted(granted)))
    found = build(machine, policy).run(ARCHITECTURES[machine], number, arguments)
    name = {value: key for key, value in build_numbers(machine).items()}.get(number)
    if name is None or name == "clone3" or name in OBSOLETE:
        assert found == ABSENT
    elif name in PROHIBITED and name not in granted and name not in PARTIAL:
        assert found == (NOTIFY if audit == "notify" else str(PROHIBITED[name].error))


LOCKS = 10
CHANGES: Final[dict[str, list[tuple[int, ...]]]] = {
    "setrlimit": [(LOCKS, 1), (LOCKS | 7 << 32, 0)],
    "prlimit64": [(0, LOCKS, 1), (0, LOCKS, 1 << 32), (0, LOCKS | 1 << 32, 1 << 63)],
}
READINGS: Final[dict[str, list[tuple[int, ...]]]] = {
    "setrlimit": [(9, 1), (11, 1)],
    "prlimit64": [(0, LOCKS, 0, 1), (0, 9, 1), (0, 7, 1)],
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_the_limit_that_carries_a_number_can_be_read_and_not_changed(machine: Machine, name: str) -> None:
    program, number = build(machine, SyscallPolicy()), build_numbers(machine)[name]
    refused = {program.run(ARCHITECTURES[machine], number, values) for values in CHANGES[name]}
    assert refused == {str(errno.EPERM)}
    allowed = {program.run(ARCHITECTURES[machine], number, values) for values in READINGS[name]}
    assert allowed == {ALLOW}


@pytest.mark.parametrize(("option", "outcome"), [(0x1002, NOTIFY), (0x1001, ALLOW), (0x1003, ALLOW)])
def test_only_what_a_starting_c_library_does_is_held(option: int, outcome: str) -> None:
    program, number = build("x86_64", SyscallPolicy()), build_numbers("x86_64")["arch_prctl"]
    assert program.run(ARCHITECTURES["x86_64"], number, (option, 0)) == outcome
    assert program.run(ARCHITECTURES["x86_64"], number, (option | 5 << 32, 0)) == outcome


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("architecture", [0x40000003, 0x40000028, 0xC00000F3, 0, 0xFFFFFFFF])
def test_every_other_architecture_is_killed(machine: Machine, architecture: int) -> None:
    program = build(machine, SyscallPolicy(granted=tuple(GRANTABLE)))
    assert {program.run(architecture, number) for number in (*range(601), *LATER)} == {KILL}


def test_each_architecture_kills_the_other() -> None:
    assert build("x86_64", SyscallPolicy()).run(ARCHITECTURES["aarch64"], 0) == KILL
    assert build("aarch64", SyscallPolicy()).run(ARCHITECTURES["x86_64"], 0) == KILL


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("high", [0, 1 << 32, (1 << 32) - 1 << 32])
def test_sockets_are_made_only_of_harmless_families_and_types(machine: Machine, high: int) -> None:
    program, numbers = build(machine, SyscallPolicy()), build_numbers(machine)
    for call, family, kind, flags, protocol in product(
        ("socket", "socketpair"), range(64), range(16), (0, 0o4000, 0o2000000, 0o2004000), (0, 4, 9, 15, 16)
    ):
        arguments = (family | high, kind | flags | high, protocol | high)
        found = program.run(ARCHITECTURES[machine], numbers[call], arguments)
        is_ordinary = family in {1, 2, 10} and kind in {1, 2, 5}
        is_route = family == 16 and kind in {2, 3} and protocol == 0
        assert found == (ALLOW if is_ordinary or is_route else NOTIFY), (call, family, kind, protocol)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_internet_families_only_local_sockets_are_left(machine: Machine) -> None:
    program = build(machine, SyscallPolicy(audit="static", families=("unix",)))
    number = build_numbers(machine)["socket"]
    allowed = [f for f in range(64) if program.run(ARCHITECTURES[machine], number, (f, 1, 0)) == ALLOW]
    assert allowed == [1]
    assert program.run(ARCHITECTURES[machine], number, (2, 2, 0)) == str(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("machine", MACHINES)
def test_clone_is_free_unless_one_bit_makes_a_namespace(machine: Machine) -> None:
    program, number = build(machine, SyscallPolicy(audit="static")), build_numbers(machine)["clone"]
    for bit in range(64):
        found = program.run(ARCHITECTURES[machine], number, (1 << bit,))
        assert found == (str(errno.EPERM) if bit in NAMESPACE_BITS else ALLOW), bit
    everything = (1 << 64) - 1 - sum(1 << bit for bit in NAMESPACE_BITS)
    assert program.run(ARCHITECTURES[machine], number, (everything,)) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_terminal_injection_is_refused_whatever_the_upper_half_says(machine: Machine) -> None:
    program, number = build(machine, SyscallPolicy(audit="static")), build_numbers(machine)["ioctl"]
    for high, command in product((0, 1 << 32, 0xFFFFFFFF << 32), range(0x5400, 0x5480)):
        found = program.run(ARCHITECTURES[machine], number, (0, command | high))
        assert found == (str(errno.EPERM) if command in {0x5412, 0x541C} else ALLOW), hex(command)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_grant_of_ptrace_does_not_reach_pid_1(machine: Machine) -> None:
    policy = SyscallPolicy(granted=("ptrace", "process_vm_readv", "process_vm_writev"))
    program, numbers = build(machine, policy), build_numbers(machine)
    for request, pid in product((0, 1, 7, 16, 0x4206), (0, 1, 2, 1 | 1 << 32)):
        found = program.run(ARCHITECTURES[machine], numbers["ptrace"], (request, pid))
        is_first = request in {16, 0x4206} and pid & 0xFFFFFFFF == 1
        assert found == (NOTIFY if is_first else ALLOW)
    for call in ("process_vm_readv", "process_vm_writev"):
        assert program.run(ARCHITECTURES[machine], numbers[call], (1,)) == NOTIFY
        assert program.run(ARCHITECTURES[machine], numbers[call], (77,)) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_only_datagrams_with_a_destination_are_watched(machine: Machine) -> None:
    program, number = build(machine, SyscallPolicy()), build_numbers(machine)["sendto"]
    for pointer in (0, 1, 0x7FFF00000000, 0x7FFF12345678):
        found = program.run(ARCHITECTURES[machine], number, (3, 0, 0, 0, pointer, 16))
        assert found == (NOTIFY if pointer else ALLOW)


@pytest.mark.parametrize(
    "name", ["mount", "io_uring_setup", "userfaultfd", "bpf", "setns", "pidfd_getfd", "socket"]
)
def test_what_would_open_another_layer_is_never_granted(name: str) -> None:
    with raises_code("system-call-grant", match="never granted"):
        build_filter(SyscallPolicy(granted=(name,)), machine="x86_64")


def test_a_grant_of_an_unknown_name_is_refused() -> None:
    with raises_code("system-call-grant", match="not the name"):
        verify_grants(("ptracee",))


def test_a_grant_of_what_is_free_anyway_changes_nothing() -> None:
    free = build_filter(SyscallPolicy(granted=("getpid", "statx")), machine="x86_64")
    assert free == build_filter(SyscallPolicy(), machine="x86_64")


def test_every_judged_call_exists_on_some_architecture() -> None:
    known = {name for machine in MACHINES for name in build_numbers(machine)}
    assert set(PROHIBITED) <= known
    assert known >= OBSOLETE
    assert set(PROHIBITED) >= GRANTABLE


def test_every_class_but_that_of_watched_calls_has_members() -> None:
    assert set(get_args(CallClass)) - {group.name for group in PROHIBITED.values()} == {"network"}


def test_the_classes_hold_every_call_that_opens_a_way_out() -> None:
    """Spelled out once more, so that none can get lost from the table."""
    dangerous = """
        mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
        mount_setattr ptrace process_vm_readv process_vm_writev pidfd_getfd unshare setns clone bpf
        perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key request_key keyctl
        init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff
        open_by_handle_at fanotify_init syslog personality clock_settime settimeofday socket socketpair ioctl
        acct quotactl quotactl_fd iopl ioperm
    """
    assert set(dangerous.split()) - set(PROHIBITED) == set()
    assert {"io_uring_setup", "userfaultfd", "mount", "setns", "socket", "clone"} & GRANTABLE == set()


MARKS: Final = {
    "a lease": ("fcntl", {1: 1024}, str(errno.EINVAL)),
    "a lock": ("fcntl", {1: 6}, ALLOW),
    "reading what is cached": ("preadv2", {5: 8}, str(errno.EOPNOTSUPP)),
    "reading at a place": ("preadv2", {3: 8}, ALLOW),
    "writing with flags": ("pwritev2", {5: 8}, str(errno.EOPNOTSUPP)),
    "dropping pages of a file": ("fadvise64", {3: 4}, "0"),
    "reading ahead": ("fadvise64", {3: 2}, ALLOW),
    "cold pages": ("madvise", {2: 20}, "0"),
    "paging out": ("madvise", {2: 21}, "0"),
    "memory that is not needed": ("madvise", {2: 4}, ALLOW),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "given_arguments", "wanted"), MARKS.values(), ids=MARKS)
def test_calls_that_mark_or_hold_shared_files_are_refused_and_their_likes_are_not(
    machine: Machine, name: str, given_arguments: dict[int, int], wanted: str
) -> None:
    arguments = tuple(given_arguments.get(index, 0) for index in range(6))
    program = build(machine, SyscallPolicy())
    assert program.run(ARCHITECTURES[machine], build_numbers(machine)[name], arguments) == wanted
