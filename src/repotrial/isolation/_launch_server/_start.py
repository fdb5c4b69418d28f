"""A child of the launch server starts bubblewrap: it mounts what must be mounted first, then executes it.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path
from typing import Final, NoReturn

from repotrial.isolation._launch_server._confine import (
    close_all_but,
    close_on_execution,
    die_with,
    hide_from_tracers,
    make_private_mounts,
    move_tree,
    open_tree,
    unshare_processes,
)
from repotrial.isolation._launch_server._enter import DEFAULT_SIGNALS, enter_sandbox
from repotrial.isolation._launch_server._kernel import system_call
from repotrial.isolation._launch_server._messages import StartOrder, send_answer

STAGING: Final = "/sys"
"""Where trees are attached, out of sight of the host: this directory exists everywhere, and neither
bubblewrap nor a sandbox needs what is in it."""

_ARGUMENTS_SLOT, _IDLE_SLOT, _FIRST_DATA_SLOT = 3, 4, 5
_OUT_OF_THE_WAY: Final = 512
"""Descriptors are moved above this number before they are put into their places."""
_VOLATILE_MARK: Final = "work/incompat/volatile"


def data_slot(index: int) -> int:
    """Where bubblewrap finds the contents of the small file with this index."""
    return _FIRST_DATA_SLOT + index


def start_sandbox(order: StartOrder, descriptors: list[int], *, parent: int) -> NoReturn:
    """Start bubblewrap, which becomes a sandbox, and be the entry to it.

    Args:
        order: What the harness wants.
        descriptors: The channel to the harness, lifeline, ready, error and the first program; then the trees,
            if the harness has opened them, and those to join control groups by.
        parent: The launch server, with which everything ends.

    Raises:
        OSError: A mount or a program is refused.
    """
    channel, lifeline, ready, error, idle_program, *rest = descriptors
    trees, join_fds = rest[: order["opened_trees"]], rest[order["opened_trees"] :]
    # Whatever goes wrong from here on is said there.
    os.dup2(error, 2)
    die_with(parent)
    if order["is_staged"]:
        make_private_mounts(STAGING)
        die_with(parent)
        _attach_trees(order, trees)
    # In files that have no name: command lines can be read by everyone.
    options = _open_content("".join(f"{each}\0" for each in order["arguments"]))
    files = [_open_content(text) for text in order["files"]]
    bubblewrap = _spawn(order, [lifeline, ready, error, options, idle_program, *files])
    hide_from_tracers()
    # The ends of its pipes are its own: a reader that waits for their closing must not wait for us.
    os.dup2(0, 2)
    close_all_but([channel, *join_fds])
    connection = socket.socket(fileno=channel)
    pidfd = os.pidfd_open(bubblewrap)
    send_answer(connection, {"pid": bubblewrap}, [pidfd])
    os.close(pidfd)
    enter_sandbox(order, connection, join_fds, parent=parent)


def _spawn(order: StartOrder, descriptors: list[int]) -> int:
    """Bubblewrap, with these descriptors, numbered from 0, and no others.

    Between its clone and its first own words bubblewrap's child cannot be told anything: should bubblewrap be
    killed in that moment, the child would wait for it for ever. In a namespace whose first process is
    bubblewrap itself, the kernel kills both.
    """
    if order["is_staged"]:
        unshare_processes()
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for descriptor in descriptors]
    close_on_execution()
    # Whatever stands in this environment and on this command line could be read inside.
    return os.posix_spawn(
        order["bubblewrap"],
        [order["label"], "--args", str(_ARGUMENTS_SLOT), f"/proc/self/fd/{_IDLE_SLOT}"],
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, source, slot) for slot, source in enumerate(moved)],
        setsigdef=DEFAULT_SIGNALS,
    )


def _attach_trees(order: StartOrder, opened: list[int]) -> None:
    for index, tree in enumerate(order["trees"]):
        target = f"{STAGING}/{tree['name']}"
        _make_mount_point(target, is_directory=tree["is_directory"])
        move_tree(opened[index] if opened else open_tree(tree["path"]), target)
    for overlay in order["overlays"]:
        target = f"{STAGING}/{overlay['name']}"
        _make_mount_point(target, is_directory=True)
        layers = (overlay["lower"], overlay["upper"], overlay["work"])
        _mount_overlay(target, *[f"{STAGING}/{layer}" for layer in layers])


def _mount_overlay(target: str, lower: str, upper: str, work: str) -> None:
    """Mount it *volatile*: nothing in it waits for the disk, neither a program's fsync nor its own end.

    A workspace outlives no crash of the machine, and whatever is kept of one is synced where it is kept.
    Unmounting would otherwise write out everything that is unwritten on that whole file system. The kernel
    leaves a mark, so that the layers are not trusted after a crash; those that are still here we trust.
    """
    mark = Path(work, _VOLATILE_MARK)
    # There is none if it is mounted for the first time.
    with contextlib.suppress(OSError):
        (mark / "dirty").unlink()
        mark.rmdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"
    system_call("mount", b"overlay", target.encode(), b"overlay", 0, options.encode())


def _make_mount_point(path: str, *, is_directory: bool) -> None:
    if is_directory:
        Path(path).mkdir(0o755)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _open_content(content: str) -> int:
    descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
    os.pwrite(descriptor, os.fsencode(content), 0)  # to be read from the beginning
    return descriptor
