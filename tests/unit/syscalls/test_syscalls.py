from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from repotrial.syscalls import Machine, build_numbers, find_machine

MACHINES: tuple[Machine, ...] = get_args(Machine)
HEADERS: dict[Machine, tuple[str, ...]] = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
# Names that the generic header gives to numbers of 32-bit machines, or twice to the same number.
FOREIGN = re.compile(r".*(64|_time32)$|arch_specific_syscall|syscalls|sync_file_range2|.*_time64")


@pytest.mark.parametrize(
    ("machine", "name", "number"),
    [
        ("x86_64", "read", 0),
        ("x86_64", "execve", 59),
        ("x86_64", "ptrace", 101),
        ("x86_64", "mount", 165),
        ("x86_64", "unshare", 272),
        ("x86_64", "seccomp", 317),
        ("x86_64", "rseq", 334),
        ("aarch64", "io_setup", 0),
        ("aarch64", "mount", 40),
        ("aarch64", "unshare", 97),
        ("aarch64", "ptrace", 117),
        ("aarch64", "execve", 221),
        ("aarch64", "recvmmsg", 243),
        ("aarch64", "wait4", 260),
        ("aarch64", "seccomp", 277),
        ("aarch64", "kexec_file_load", 294),
        ("x86_64", "clone3", 435),
        ("aarch64", "clone3", 435),
        ("x86_64", "mount_setattr", 442),
        ("aarch64", "landlock_restrict_self", 446),
        ("x86_64", "open_tree_attr", 467),
        ("aarch64", "file_setattr", 469),
    ],
)
def test_well_known_numbers_are_right(machine: Machine, name: str, number: int) -> None:
    assert build_numbers(machine)[name] == number


@pytest.mark.parametrize("machine", MACHINES)
def test_the_table_agrees_with_the_kernel_headers_of_this_machine(machine: Machine) -> None:
    header = next((Path(path) for path in HEADERS[machine] if Path(path).exists()), None)
    if header is None:
        pytest.skip("no kernel headers here")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    ours = build_numbers(machine)
    known = [(name, int(number)) for name, number in found if name in ours and not FOREIGN.fullmatch(name)]
    assert len(known) > 250
    assert [(name, number, ours[name]) for name, number in known if ours[name] != number] == []
    assert {
        name
        for name, number in found
        if int(number) < 440 and name not in ours and not FOREIGN.fullmatch(name)
    } <= {"fstatat"}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_stands_twice(machine: Machine) -> None:
    numbers = build_numbers(machine)
    assert len(set(numbers.values())) == len(numbers)


def test_this_machine_has_a_table() -> None:
    assert find_machine() in MACHINES
