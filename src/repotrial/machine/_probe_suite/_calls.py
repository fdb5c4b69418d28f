"""Attempts on the kernel by system calls: what must refuse each, and what must be on record."""

from __future__ import annotations

from typing import Final, NamedTuple


class _CallProgram(NamedTuple):
    """A program that makes one call, and what must come of it."""

    code: str
    """Leaves what the kernel said in `result`; an error that it raises does the same."""
    refusals: frozenset[str]
    recorded: str | None = None
    """The call that must be on record; None where another layer refuses first."""


def _refused(code: str, recorded: str, error: str = "EPERM") -> _CallProgram:
    return _CallProgram(code, frozenset({error}), recorded)


def _stopped(code: str, *errors: str) -> _CallProgram:
    return _CallProgram(code, frozenset(errors))


CALLS: Final = {
    "open-core-pattern-for-writing": _stopped(
        'open("/proc/sys/kernel/core_pattern", "r+")', "EACCES", "EROFS"
    ),
    "remount-usr-writable": _refused(
        'result = call(NR["mount"], None, b"/usr", None, 0x1020, None)', "mount"
    ),
    "mount-a-tmpfs": _refused('result = call(NR["mount"], b"t", b"/tmp", b"tmpfs", 0, None)', "mount"),
    "unmount-the-workspace": _refused('result = call(NR["umount2"], b"/workspace", 2)', "umount2"),
    "nested-user-namespace": _refused('result = call(NR["unshare"], 0x10000000)', "unshare"),
    "nested-user-and-mount-namespace": _refused('result = call(NR["unshare"], 0x10020000)', "unshare"),
    "new-time-namespace": _refused('result = call(NR["unshare"], 0x80)', "unshare"),
    "open-tree": _refused('result = call(NR["open_tree"], -100, b"/usr", 1)', "open_tree"),
    "open-tree-with-attributes": _refused(
        'result = call(NR["open_tree_attr"], -100, b"/usr", 1, None, 0)', "open_tree_attr"
    ),
    "fsopen": _refused('result = call(NR["fsopen"], b"tmpfs", 0)', "fsopen"),
    "mount-setattr-workspace": _refused(
        'import struct\nattributes = struct.pack("QQQQ", 0, 1, 0, 0)\n'
        'result = call(NR["mount_setattr"], -100, b"/workspace", 0, attributes, 32)',
        "mount_setattr",
    ),
    "chroot": _refused('result = call(NR["chroot"], b"/tmp")', "chroot"),
    "pivot-root": _refused('result = call(NR["pivot_root"], b"/tmp", b"/tmp")', "pivot_root"),
    "setns-to-init": _refused(
        'fd = os.open("/proc/self/ns/mnt", 0)\nresult = call(NR["setns"], fd, 0x20000)\nos.close(fd)', "setns"
    ),
    "ptrace-pid-1": _refused('result = call(NR["ptrace"], 16, 1, 0, 0)', "ptrace"),
    "seize-pid-1": _refused('result = call(NR["ptrace"], 0x4206, 1, 0, 0)', "ptrace"),
    "read-memory-of-pid-1": _refused(
        'result = call(NR["process_vm_readv"], 1, 0, 0, 0, 0, 0)', "process_vm_readv"
    ),
    "write-memory-of-pid-1": _refused(
        'result = call(NR["process_vm_writev"], 1, 0, 0, 0, 0, 0)', "process_vm_writev"
    ),
    "steal-a-descriptor-of-pid-1": _refused(
        'fd = os.pidfd_open(1)\nresult = call(NR["pidfd_getfd"], fd, 0, 0)\nos.close(fd)', "pidfd_getfd"
    ),
    "vsock-socket": _refused("socket.socket(40, socket.SOCK_STREAM)", "socket", "EAFNOSUPPORT"),
    "vsock-socket-pair": _refused(
        'result = call(NR["socketpair"], 40, 1, 0, b"x" * 8)', "socketpair", "EAFNOSUPPORT"
    ),
    "packet-socket": _refused("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "socket", "EAFNOSUPPORT"),
    "raw-socket": _refused("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "socket", "EAFNOSUPPORT"),
    "crypto-socket": _refused(
        "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)", "socket", "EAFNOSUPPORT"
    ),
    "audit-netlink": _refused(
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)", "socket", "EAFNOSUPPORT"
    ),
    "add-a-network-link": _stopped(
        "import struct\n"
        "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n"
        'body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH8s", 12, 3, b"evil0")\n'
        'body += struct.pack("HHHH8s", 16, 18, 12, 1, b"dummy")\n'
        's.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)\n'
        "reply = s.recv(4096); s.close()\n"
        'result = errno.errorcode[-struct.unpack_from("i", reply, 16)[0]]',
        "EPERM",
    ),
    "io-uring": _refused('result = call(NR["io_uring_setup"], 8, b"\\0" * 120)', "io_uring_setup"),
    "userfaultfd": _refused('result = call(NR["userfaultfd"], 1)', "userfaultfd"),
    "add-key": _refused('result = call(NR["add_key"], b"user", b"name", b"x", 1, -3)', "add_key"),
    "keyctl": _refused('result = call(NR["keyctl"], 0, -3, 1)', "keyctl"),
    "request-key": _refused('result = call(NR["request_key"], b"user", b"name", None, -3)', "request_key"),
    "bpf": _refused('result = call(NR["bpf"], 0, b"\\0" * 72, 72)', "bpf"),
    "perf-event-open": _refused(
        'result = call(NR["perf_event_open"], b"\\0" * 128, 0, -1, -1, 0)', "perf_event_open"
    ),
    "load-a-module": _refused('result = call(NR["init_module"], b"", 0, b"")', "init_module"),
    "load-a-module-by-descriptor": _refused('result = call(NR["finit_module"], 0, b"", 0)', "finit_module"),
    "kexec": _refused('result = call(NR["kexec_load"], 0, 0, 0, 0)', "kexec_load"),
    # The magic numbers are wrong on purpose: should a layer be missing, the kernel still refuses.
    "reboot": _refused('result = call(NR["reboot"], 0, 0, 0, 0)', "reboot"),
    "swapoff": _refused('result = call(NR["swapoff"], b"/nonexistent")', "swapoff"),
    "open-by-handle": _refused(
        'result = call(NR["open_by_handle_at"], -100, b"\\0" * 64, 0)', "open_by_handle_at"
    ),
    "clone-with-a-user-namespace": _refused('result = call(NR["clone"], 0x10000011, 0, 0, 0, 0)', "clone"),
    "clone-with-a-mount-namespace": _refused('result = call(NR["clone"], 0x00020011, 0, 0, 0, 0)', "clone"),
    "clone3": _stopped('result = call(NR["clone3"], b"\\0" * 88, 88)', "ENOSYS"),
    "x32-call": _stopped("result = call(0x40000000 + 39)", "ENOSYS"),
    "x32-ptrace": _stopped("result = call(0x40000000 + 521, 16, 1, 0, 0)", "ENOSYS"),
    "call-of-a-later-kernel": _stopped("result = call(599)", "ENOSYS"),
    "inject-into-the-terminal": _stopped('open("/dev/tty")', "ENXIO", "ENOENT"),
    "inject-into-a-terminal-of-its-own": _refused(
        'import fcntl, pty\nm, s = pty.openpty()\nfcntl.ioctl(s, 0x5412, b"x")', "ioctl"
    ),
    "linux-console-commands": _refused("import fcntl\nfcntl.ioctl(0, 0x541C, 0)", "ioctl"),
    "personality-without-randomization": _refused(
        'result = call(NR["personality"], 0x0040000)', "personality"
    ),
    "raise-a-hard-limit": _stopped(
        "import resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_CORE)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "try:\n    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))\n"
        'except ValueError:\n    result = "EPERM"',
        "EPERM",
    ),
    "raise-priority": _stopped("os.nice(-5)", "EPERM", "EACCES"),
    "fanotify": _refused('result = call(NR["fanotify_init"], 0, 0)', "fanotify_init"),
    "kernel-log": _refused('result = call(NR["syslog"], 3, b"x" * 64, 64)', "syslog"),
    "set-the-clock": _refused('result = call(NR["clock_settime"], 0, b"\\0" * 16)', "clock_settime"),
}
