"""A program of its own: enter a user and a mount namespace, mount an overlay, become a command.

Started by file name with an isolated interpreter; uses nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_PRIVATE_RECURSIVE = (1 << 18) | (1 << 14)
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38


def main(arguments: list[str]) -> int:
    account, lower, upper, work, target, *argv = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if account != "-":
            drop_account(libc, *(int(number) for number in account.split(":")))
        enter_namespaces(libc)
        mount_overlay(libc, lower=lower, upper=upper, work=work, target=target)
        os.chdir(target)
        _call(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        os.execv(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}: {error.filename or 'overlay'}\n")
    return 125


def enter_namespaces(libc: ctypes.CDLL) -> None:
    """A user namespace in which this account, and no other, is itself; and mounts of our own."""
    uid, gid = os.getuid(), os.getgid()
    _call(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        # Nothing that would import more: after the drop, the interpreter's own files may be out of reach.
        handle = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(handle, text.encode())
        os.close(handle)
    _call(libc.mount(b"none", b"/", None, _MS_PRIVATE_RECURSIVE, None), "make mounts private")


def mount_overlay(libc: ctypes.CDLL, *, lower: str, upper: str, work: str, target: str) -> None:
    """Mount by handles: names with commas or colons, and long ones, need no care then."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    handles = [os.open(path, flags) for path in (lower, upper, work, target)]
    places = [f"/proc/self/fd/{handle}" for handle in handles]
    with contextlib.suppress(OSError):  # mounted for the first time
        os.unlink(f"{places[2]}/work/incompat/volatile/dirty")  # noqa: PTH108 - see `_launch_server/_start`
        os.rmdir(f"{places[2]}/work/incompat/volatile")  # noqa: PTH106
    options = f"lowerdir={places[0]},upperdir={places[1]},workdir={places[2]},userxattr,volatile"
    done = libc.mount(b"overlay", places[3].encode(), b"overlay", _MS_NOSUID | _MS_NODEV, options.encode())
    _call(done, "mount")
    for handle in handles:
        os.close(handle)


def drop_account(libc: ctypes.CDLL, uid: int, gid: int) -> None:
    """Become an account without rights, for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # Changing accounts took our own /proc entries from us, and the maps are written there.
    _call(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")


def _call(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
