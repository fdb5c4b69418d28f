"""What a helper process does to itself near a sandbox: die in time, show nothing, give up power.

Needs nothing but the standard library (see `Launcher`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from repotrial._core.kernel import control_process, refuse_new_privileges, system_call
from repotrial.isolation._launch_server._messages import ScratchBound

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME = 1, 4, 15
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 8, 24, 36, 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITY_VERSION_3: Final = 0x20080522
_ACCOUNT_POWERS: Final = (5, 6, 7)
"""CAP_KILL, CAP_SETGID, CAP_SETUID."""
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_REC, _MS_PRIVATE, _MS_SLAVE = 0x4000, 0x40000, 0x80000
_MNT_DETACH: Final = 2
_MS_READ_ONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_MOUNT_ATTR_IDMAP: Final = 0x00100000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_NS_GET_USERNS: Final = 0xB701
_SIGKILL: Final = signal.SIGKILL
_CLOSE_RANGE_CLOEXEC: Final = 4
_OPEN_MAX: Final = os.sysconf("SC_OPEN_MAX")
_HIGHEST: Final = 0xFFFFFFFF
_USUAL_DESCRIPTORS: Final = 1024
_NEEDED: Final = ("net", "pid", "mnt")
"""Namespaces without which it is no sandbox; sharing one of them with the host is refused."""
_HELPFUL: Final = ("ipc", "uts", "cgroup")
_COUNTERS: Final = {
    "fs/mqueue/queues_max": b"16",
    "kernel/msgmni": b"32",
    "kernel/sem": b"250 8000 32 64",
    "kernel/shmall": b"131072",
    "kernel/shmmni": b"256",
    "user/max_inotify_instances": b"32",
}
"""Of one sandbox: a neighbor of the same user could otherwise use up what all of them have together."""
_NAMES: Final = (*_NEEDED, *_HELPFUL, "user")
_OWN: Final[dict[str, int]] = {}
"""Forgotten when we leave one: as soon as it is empty, its number is given to another."""


def die_with(parent: int) -> None:
    """Be killed when the parent ends.

    The kernel forgets this when credentials change, so it is said again after every such step. The parent
    must have a single thread: the signal comes when the *thread* that forked ends.
    """
    control_process(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end: here they are reaped, or found."""
    control_process(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_tracers() -> None:
    """Close memory, descriptors and environment of this process to others of the same user."""
    control_process(_PR_SET_DUMPABLE, 0)


def show_to_itself() -> None:
    """Make this process's own files under /proc its own again, so that it can write its id maps."""
    control_process(_PR_SET_DUMPABLE, 1)


def erase_command_line(name: str) -> None:
    """Show only `name` in lists of processes: paths of the host must not be read inside."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b") ")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end: see proc(5)
    ctypes.memset(start, 0, end - start)
    system_call("prctl", _PR_SET_NAME, name.encode("ascii"), 0, 0, 0)


def close_all_but(kept: Iterable[int]) -> None:
    """Close every descriptor above standard error that is not kept."""
    start = 3
    for descriptor in sorted(kept):
        if start < descriptor:
            os.closerange(start, descriptor)
        start = max(start, descriptor + 1)
    os.closerange(start, _OPEN_MAX)


def close_on_execution() -> None:
    """Let no descriptor but the standard streams pass to the next program, however it came here."""
    try:
        system_call("close_range", 3, _HIGHEST, _CLOSE_RANGE_CLOEXEC)
    except OSError:  # before Linux 5.11
        for number in range(3, _USUAL_DESCRIPTORS):
            try:
                os.set_inheritable(number, False)
            except OSError:
                continue


def drop_account(uid: int, gid: int) -> None:
    """Become an unprivileged user, for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def keep_account_powers(uid: int, gid: int) -> None:
    """Become an unprivileged user that can still become another one, and end what it has started as one."""
    for number in range(64):
        try:
            if number not in _ACCOUNT_POWERS:
                control_process(_PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the first number that this kernel does not know
                raise
            break
    control_process(_PR_SET_KEEPCAPS, 1)
    drop_account(uid, gid)
    refuse_new_privileges()
    _set_powers(sum(1 << number for number in _ACCOUNT_POWERS))


def become(uid: int, gid: int) -> None:
    """Become an unprivileged user for good, where one is left that can."""
    drop_account(uid, gid)
    _set_powers(0)


def _set_powers(powers: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    system_call("capset", header, struct.pack("=6I", powers, powers, 0, 0, 0, 0))


def drop_capabilities() -> None:
    """Give up every capability, and every way to get one back."""
    refuse_new_privileges()
    for number in range(64):
        try:
            control_process(_PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the first number that this kernel does not know
                raise
            break
    control_process(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _set_powers(0)


def join_cgroups(descriptors: Iterable[int]) -> None:
    """Move into control groups by descriptors that the harness has opened. Not for a process with threads."""
    for descriptor in descriptors:
        os.write(descriptor, b"0")


def leave_mounts(places: Iterable[str]) -> None:
    """Live without what is mounted at these places and below them, where this account may; others keep it.

    Bubblewrap reads the list of all mounts once for each mount it makes, and the host's control groups alone
    can be half of that list. What the host mounts elsewhere later still appears.
    """
    try:
        system_call("unshare", _CLONE_NEWNS)
        _OWN.clear()
        system_call("mount", b"none", b"/", None, _MS_REC | _MS_SLAVE, None)
    except OSError:  # some roots may not
        return
    for place in places:
        try:
            while True:
                system_call("umount2", place.encode(), _MNT_DETACH)
        except OSError:  # until nothing is mounted there
            continue


def make_private_mounts(staging: str) -> None:
    """Enter a user and a mount namespace of our own, with an empty directory to mount things in.

    The maps keep our ids as they are, so that the power in this namespace ends with the next program.
    """
    uid, gid = os.getuid(), os.getgid()
    show_to_itself()
    system_call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
    _OWN.clear()
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, text.encode())
        os.close(file)
    system_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    system_call("mount", b"tmpfs", staging.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=0755")


def unshare_processes() -> None:
    """Let the next child be the first process of a PID namespace."""
    system_call("unshare", _CLONE_NEWPID)


def open_tree(path: str) -> int:
    """A file tree as a mount of its own that is not attached anywhere yet."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    return system_call("open_tree", _AT_FDCWD, os.fsencode(path), flags)


def show_as(tree: int, mapping: int) -> None:
    """Let a tree that is not attached yet show the files of one account as those of another.

    Args:
        tree: As `open_tree` gave it.
        mapping: A user namespace that maps the stored account to the shown one.
    """
    attributes = struct.pack("=QQQQ", _MOUNT_ATTR_IDMAP, 0, 0, mapping)
    flags, size = _AT_EMPTY_PATH | _AT_RECURSIVE, len(attributes)
    system_call("mount_setattr", tree, b"", flags, ctypes.create_string_buffer(attributes, size), size)


def move_tree(tree: int, target: str) -> None:
    """Attach a tree; whether its path could be walked from here does not matter."""
    system_call("move_mount", tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)


def mount_shared(lower: str, target: str) -> None:
    """Show a read-only tree as one of our own: what is locked, leased or watched in it is so for us alone."""
    # The kernel wants two layers where none can be written to.
    empty = f"{target}.empty"
    Path(empty).mkdir(0o755)
    options = f"lowerdir={lower}:{empty},userxattr"
    system_call("mount", b"overlay", target.encode(), b"overlay", _MS_READ_ONLY, options.encode())


def find_own_namespaces() -> Mapping[str, int]:
    """Those of this process when it is first asked, by name; what it forks later inherits the answer."""
    for name in _NAMES:
        if name not in _OWN:
            _OWN[name] = Path("/proc/self/ns", name).stat().st_ino
    return _OWN


def enter_namespaces(pid: int, pidfd: int, scratch: Sequence[ScratchBound] = ()) -> None:
    """Go where process `pid` is, as far as a process that stays visible to the host can.

    On the way, what the kernel lets only the sandbox's owner bound is bounded.

    Its namespaces belong to a user namespace between ours and its own: bubblewrap makes a second one, in
    which programs run. The first has the power over the others, so it is entered first, and the second last.

    Args:
        pid: In the sandbox.
        pidfd: Of the same.
        scratch: File systems in memory to bound.

    Raises:
        OSError: It has ended, shares a namespace with us, or is not ours to enter.
    """
    names = _NAMES
    handles = {name: os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}
    # Only now: that the process still lives means that none of the handles is of a later one with its number.
    if select.select([pidfd], [], [], 0)[0]:
        raise ProcessLookupError(errno.ESRCH, "the sandbox has ended")
    own = find_own_namespaces()
    shared = {name for name in names if os.fstat(handles[name]).st_ino == own[name]}
    if shared.intersection((*_NEEDED, "user")):
        raise PermissionError(errno.EPERM, f"shares a namespace with the host: {sorted(shared)}")
    system_call("setns", fcntl.ioctl(handles["mnt"], _NS_GET_USERNS), _CLONE_NEWUSER)
    for name in (*_HELPFUL, *_NEEDED):
        if name == _NEEDED[-1]:
            _bound_counters()
        if name not in shared:
            system_call("setns", handles[name], 0)
    _bound_scratch(scratch)
    system_call("setns", handles["user"], _CLONE_NEWUSER)
    for handle in handles.values():
        os.close(handle)


def _bound_counters() -> None:
    """Give the namespaces of a sandbox ceilings that the kernel counts for each user of the host.

    Files under `/proc/sys` mean the namespaces of who opens them, and here they are seen for the last time.
    Older kernels refuse some of them to ordinary users.
    """
    for name, value in _COUNTERS.items():
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value)
            finally:
                os.close(descriptor)


def _bound_scratch(scratch: Sequence[ScratchBound]) -> None:
    """Bubblewrap bounds the bytes of a file system in memory and not its files: an empty one takes 1 KiB."""
    flags = _MS_REMOUNT | _MS_NOSUID | _MS_NODEV
    for bound in scratch:
        system_call("mount", b"none", os.fsencode(bound["path"]), None, flags, os.fsencode(bound["options"]))
