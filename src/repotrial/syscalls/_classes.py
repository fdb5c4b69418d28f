"""System calls by name, and the classes that a sandbox refuses.

A number that stands in no table is answered as if the kernel did not have it: what we have not judged, a
program inside cannot use.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from repotrial._core.call_numbers import load_numbers
from repotrial._core.errors import ErrorCode, MachineError

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
"""In the words of image indexes; the others have the same name there."""

Machine: TypeAlias = Literal["x86_64", "aarch64"]
"""Architectures with a table; spelled as the kernel spells them."""

CallClass: TypeAlias = Literal[
    "clock",
    "file-handle",
    "kernel-control",
    "keyring",
    "mount",
    "namespace",
    "network",
    "personality",
    "process-inspection",
    "programmable-kernel",
    "socket-family",
    "terminal-injection",
]
"""What kind of call it is, as events name it."""


UNSUPPORTED_MACHINE = ErrorCode(
    "unsupported-machine",
    MachineError,
    "The syscall filter has no table for this architecture. It knows x86-64 and aarch64, both 64-bit.",
    hint="Run on x86-64 or aarch64.",
)


class ProhibitedClass(NamedTuple):
    """Calls that are refused together, for one reason."""

    name: CallClass
    calls: tuple[str, ...]
    error: int = errno.EPERM
    is_grantable: bool = False
    """Whether a contract may ask for them: only what cannot loosen another layer."""


_CLASSES: Final = (
    ProhibitedClass(
        "mount",
        (
            *("mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount"),
            *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
        ),
    ),
    # Sanitizers and debuggers need these; PID 1 stays out of reach even then.
    ProhibitedClass(
        "process-inspection",
        ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
        is_grantable=True,
    ),
    ProhibitedClass("process-inspection", ("pidfd_getfd",)),
    # `clone` only with flags that make namespaces.
    ProhibitedClass("namespace", ("unshare", "setns", "clone")),
    # io_uring would make sockets that no filter sees; a userfaultfd page would stall its readers.
    ProhibitedClass(
        "programmable-kernel",
        ("bpf", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    ),
    ProhibitedClass("programmable-kernel", ("perf_event_open",), is_grantable=True),
    ProhibitedClass("keyring", ("add_key", "request_key", "keyctl")),
    ProhibitedClass(
        "kernel-control",
        (
            *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
            *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "iopl", "ioperm", "syslog", "vhangup"),
        ),
    ),
    ProhibitedClass("file-handle", ("open_by_handle_at", "fanotify_init", "fanotify_mark")),
    ProhibitedClass("clock", ("settimeofday", "clock_settime")),
    # Only with something to set: reading the current one is free.
    ProhibitedClass("personality", ("personality",), is_grantable=True),
    # Only families outside the policy, raw types, and netlink beyond routes.
    ProhibitedClass("socket-family", ("socket", "socketpair"), errno.EAFNOSUPPORT),
    # Only TIOCSTI and TIOCLINUX.
    ProhibitedClass("terminal-injection", ("ioctl",)),
)

PROHIBITED: Final[Mapping[str, ProhibitedClass]] = MappingProxyType(
    {call: group for group in _CLASSES for call in group.calls}
)
"""Calls that are refused (some only with certain arguments), each with its class."""

GRANTABLE: Final = frozenset(call for group in _CLASSES if group.is_grantable for call in group.calls)
"""Calls that a contract may ask for."""

PROBED: Final = frozenset({"io_uring_setup", "perf_event_open", "personality"})
"""Refused calls that ordinary runtimes make to see whether the kernel has them, and do without.

Event loops try io_uring, benchmarks the counters, language runtimes and sanitizers a fixed address space.
Each concerns the caller alone, and many machines refuse them too: to try one is no attack.
"""

OBSOLETE: Final = frozenset(
    {
        *("uselib", "ustat", "sysfs", "_sysctl", "create_module", "get_kernel_syms", "query_module"),
        *("nfsservctl", "getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "vserver"),
        *("lookup_dcookie", "epoll_ctl_old", "epoll_wait_old", "set_thread_area", "get_thread_area"),
    }
)
"""Calls that kernels dropped or no program of today makes: answered as if absent."""


def find_machine() -> Machine:
    """The architecture that this program runs on.

    Raises:
        UNSUPPORTED_MACHINE: There is no table for it.
    """
    match os.uname().machine:
        case "x86_64":
            return "x86_64"
        case "aarch64":
            return "aarch64"
        case found:
            raise UNSUPPORTED_MACHINE.error(f"expected x86_64 or aarch64, found {found}")


@cache
def build_numbers(machine: Machine) -> Mapping[str, int]:
    """The number of each call that the architecture has."""
    return MappingProxyType(load_numbers(machine))


def machine_platform() -> str:
    """This machine in the words of image indexes: `linux/amd64`."""
    machine = os.uname().machine
    return f"linux/{_ARCHITECTURES.get(machine, machine)}"
