"""The helper's side: a process with one thread that has a child ready for the next request, and never more.

A child that entered a namespace can not come back, so each serves one request. It is forked beforehand:
then no request waits for that. Needs only the standard library.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias

from repotrial._core.kernel import build_buffer, system_call

NamespaceKind: TypeAlias = Literal["mnt", "net", "pid"]

_NS_GET_USERNS: Final = 0xB701
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_CLONE_NEWPID: Final = 0x20000000
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_ATTR_READ_ONLY, _ATTR_NO_SETUID, _ATTR_NO_DEVICES, _ATTR_NO_EXEC = 1, 2, 4, 8
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_FSCONFIG_SET_STRING, _FSCONFIG_CREATE = 1, 6
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = _OPEN_TREE_CLONE = 1
_MOVE_FROM_EMPTY_PATH, _MOVE_TO_SYMLINKS = 4, 0x10
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_FLAGS: Final[Mapping[NamespaceKind, int]] = MappingProxyType(
    {"mnt": _CLONE_NEWNS, "net": _CLONE_NEWNET, "pid": _CLONE_NEWPID}
)
_COVER_SOURCE: Final = "repotrial-mask"
_BACKLOG: Final = 128


class NamespaceEntry(NamedTuple):
    """What a process keeps of the outside when it enters."""

    namespace: int
    """A descriptor of the namespace entered."""
    own: int
    """Our own directory in the outer /proc: the one inside belongs to the payload, and does not know us."""


def enter_namespace(pid: int, kind: NamespaceKind) -> NamespaceEntry:
    """Enter a namespace of a process, with all rights that its owner has over it.

    The payload may sit in a further user namespace that has no rights there, so the way leads through the
    user namespace that owns the one wanted. From here on nothing can be imported: what looks like a module
    might be the payload's.
    """
    own = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    target = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(target, _NS_GET_USERNS)
    if os.fstat(owner).st_ino != Path("/proc/self/ns/user").stat().st_ino:
        system_call("setns", owner, _CLONE_NEWUSER)
    os.close(owner)
    sys.meta_path.clear()
    system_call("setns", target, _FLAGS[kind])
    return NamespaceEntry(target, own)


def set_mount_read_only(path: str, *, is_read_only: bool) -> None:
    """Change a mount for everybody who sees it, at once; what is open for writing prevents it (EBUSY)."""
    attribute = _ATTR_READ_ONLY
    _set_attributes(_AT_FDCWD, os.fsencode(path), attribute if is_read_only else 0, clear=attribute)


def cover(entry: NamespaceEntry, paths: Iterable[str]) -> None:
    """Put something that cannot be opened, run or changed over files and directories; all or none.

    Args:
        entry: Into the mount namespace.
        paths: Absolute; links are followed, so that every name of the thing is covered.
    """
    targets = [os.path.realpath(path) for path in paths]
    covered = set(_iter_covered(entry))
    missing = [target for target in dict.fromkeys(targets) if target not in covered]
    # In a namespace of our own, so that no program inside ever sees the covers anywhere else.
    are_directories = [stat.S_ISDIR(os.stat(target).st_mode) for target in missing]  # noqa: PTH116 - of a name in another root
    system_call("unshare", _CLONE_NEWNS)
    system_call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    _adopt_mapped_ids(entry)
    store = _mount_store()
    covers = [_clone_cover(store, is_directory=is_directory) for is_directory in are_directories]
    system_call("setns", entry.namespace, _CLONE_NEWNS)
    done: list[str] = []
    try:
        for target, tree in zip(missing, covers, strict=True):
            flags = _MOVE_FROM_EMPTY_PATH | _MOVE_TO_SYMLINKS
            system_call("move_mount", tree, b"", _AT_FDCWD, os.fsencode(target), flags)
            done.append(target)
    except OSError:
        uncover(entry, done)
        raise


def uncover(entry: NamespaceEntry, paths: Iterable[str]) -> None:
    """Take covers away again; only covers, never another mount."""
    targets = [os.path.realpath(path) for path in paths]
    covered = set(_iter_covered(entry))
    for target in targets:
        if target not in covered:
            raise FileNotFoundError(errno.ENOENT, f"{target} is not masked")
    for target in targets:
        system_call("umount2", os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW)


def listen_inside(port: int) -> socket.socket:
    """A listener on the loopback address of the network namespace entered."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    _bring_up_loopback(listener)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def open_mapping(stored: tuple[int, int], shown: tuple[int, int]) -> int:
    """A user namespace by which a mount shows the files of one account as those of another."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            system_call("unshare", _CLONE_NEWUSER)
            os.write(writer, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        if os.read(reader, 1) != b"+":
            raise OSError(errno.EPERM, "a user namespace was refused")
        for name, index in (("uid_map", 0), ("gid_map", 1)):
            Path(f"/proc/{child}/{name}").write_text(f"{stored[index]} {shown[index]} 1\n", "ascii")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def signal_inside(number: int) -> None:
    """Signal every process of the pid namespace entered but its first, at one instant.

    One call from inside reaches those too that are just being made, which no list from outside does.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.kill(-1, number)
            status = 0
        except ProcessLookupError:
            # No such process.
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError(errno.EIO, "the process that was to signal the sandbox was ended")


def _set_attributes(directory: int, path: bytes, attributes: int, *, clear: int = 0) -> None:
    flags = 0 if path else _AT_EMPTY_PATH
    request = build_buffer("=QQQQ", attributes, clear & ~attributes, 0, 0)
    system_call("mount_setattr", directory, path, flags, request, len(request))


def _iter_covered(entry: NamespaceEntry) -> Iterator[str]:
    for line in _read_own(entry, "mountinfo").splitlines():
        fields, _, source = line.partition(" - ")
        if source.split(" ")[1] == _COVER_SOURCE:
            yield _unescape(fields.split(" ")[4])


def _read_own(entry: NamespaceEntry, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=entry.own)
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123 - a descriptor
        return stream.read()


def _unescape(text: str) -> str:
    """The kernel writes blanks and backslashes in octal."""
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, character)
    return text


def _adopt_mapped_ids(entry: NamespaceEntry) -> None:
    """Become an account that the user namespace knows: others cannot make files in it."""
    gid = int(_read_own(entry, "gid_map").split()[0])
    uid = int(_read_own(entry, "uid_map").split()[0])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _mount_store() -> int:
    """A small file system with a file and a directory that no account may open."""
    context = system_call("fsopen", b"tmpfs", _FSOPEN_CLOEXEC)
    for key, value in ((b"source", _COVER_SOURCE.encode()), (b"size", b"64k")):
        system_call("fsconfig", context, _FSCONFIG_SET_STRING, key, value, 0)
    system_call("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
    store = system_call("fsmount", context, _FSMOUNT_CLOEXEC, 0)
    system_call("move_mount", store, b"", _AT_FDCWD, b"/", _MOVE_FROM_EMPTY_PATH)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0, dir_fd=store))
    os.mkdir("directory", 0, dir_fd=store)
    return store


def _clone_cover(store: int, *, is_directory: bool) -> int:
    name = b"directory" if is_directory else b"file"
    tree = system_call("open_tree", store, name, _OPEN_TREE_CLONE | os.O_CLOEXEC)
    # Read-only, so that its owner inside cannot give it a mode again.
    _set_attributes(tree, b"", _ATTR_READ_ONLY | _ATTR_NO_SETUID | _ATTR_NO_DEVICES | _ATTR_NO_EXEC)
    return tree


def _bring_up_loopback(control: socket.socket) -> None:
    request = struct.pack("16sH14x", b"lo", 0)
    (flags,) = struct.unpack_from("H", fcntl.ioctl(control, _SIOCGIFFLAGS, request), 16)
    if not flags & _IFF_UP:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


MESSAGE_BYTES: Final = 64 * 1024
"""Largest request."""


def main(arguments: Sequence[str]) -> None:
    """Serve requests on a channel until its other end closes, or a child fails to answer."""
    # Tables and libraries that a first call loads: once here, not in every child.
    system_call("getpid")
    with socket.socket(fileno=int(arguments[0])) as channel:
        while True:
            child = os.fork()
            if child == 0:
                _serve_in_child(channel)
            # A request without an answer sees the channel close.
            if os.waitpid(child, 0)[1] != 0:
                return


def _serve_in_child(channel: socket.socket) -> NoReturn:
    status = 1
    try:
        request = channel.recv(MESSAGE_BYTES)
        if request:
            _serve(channel, request)
            status = 0
    finally:
        os._exit(status)


def _serve(channel: socket.socket, request: bytes) -> None:
    try:
        descriptors = _execute(json.loads(request))
    except OSError as error:
        _reply(channel, {"errno": error.errno or errno.EIO, "message": str(error)})
    else:
        _reply(channel, {}, descriptors)


def _execute(request: dict[str, Any]) -> list[int]:
    match request:
        case {"operation": "read-only", "pid": int(pid), "path": str(path), "is_read_only": bool(value)}:
            enter_namespace(pid, "mnt")
            set_mount_read_only(path, is_read_only=value)
        case {"operation": "cover", "pid": int(pid), "paths": list(paths)}:
            cover(enter_namespace(pid, "mnt"), paths)
        case {"operation": "uncover", "pid": int(pid), "paths": list(paths)}:
            uncover(enter_namespace(pid, "mnt"), paths)
        case {"operation": "map", "inside": [int(uid), int(gid)], "outside": [int(to_uid), int(to_gid)]}:
            return [open_mapping((uid, gid), (to_uid, to_gid))]
        case {"operation": "signal", "pid": int(pid), "number": int(number)}:
            enter_namespace(pid, "pid")
            signal_inside(number)
        case {"operation": "listen", "pid": int(pid), "port": int(port)}:
            enter_namespace(pid, "net")
            return [listen_inside(port).detach()]
        case _:
            raise OSError(errno.EINVAL, f"unknown request {request}")
    return []


def _reply(channel: socket.socket, answer: dict[str, object], descriptors: Sequence[int] = ()) -> None:
    socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)
