"""A child of the launch server starts bubblewrap: it mounts what must be mounted first, then executes it.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import _socket
import fcntl
import os

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
from repotrial.isolation._launch_server._messages import send_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

    Order = dict[str, Any]
    """A `StartOrder`, as it travels."""

STAGING: Final = "/sys"
"""Where trees are attached, out of sight of the host: this directory exists everywhere, and neither
bubblewrap nor a sandbox needs what is in it."""

_FIXED: Final = 6
"""So many descriptors always come along."""
_ARGUMENTS_SLOT, _IDLE_SLOT, _FIRST_DATA_SLOT = 3, 4, 5
_OUT_OF_THE_WAY: Final = 512
"""Descriptors are moved above this number before they are put into their places."""
_VOLATILE_MARK: Final = "work/incompat/volatile"


def data_slot(index: int) -> int:
    """Where bubblewrap finds the contents of the small file with this index."""
    return _FIRST_DATA_SLOT + index


def start_sandbox(order: Order, descriptors: list[int], *, parent: int) -> NoReturn:
    """Start bubblewrap, which becomes a sandbox, and be the entrance to it.

    Args:
        order: What the harness wants.
        descriptors: The channel to the harness, lifeline, ready, error, bubblewrap's options and the first
            program; then the small files, the trees, and the doors of control groups.
        parent: The launch server, with whom everything ends.

    Raises:
        OSError: A mount or a program is refused.
    """
    channel, *standard = descriptors[:_FIXED]
    rest = descriptors[_FIXED:]
    data, rest = rest[: order["data"]], rest[order["data"] :]
    trees, doors = rest[: order["opened_trees"]], rest[order["opened_trees"] :]
    # Whatever goes wrong from here on is said there.
    os.dup2(standard[2], 2)
    die_with(parent)
    if order["is_staged"]:
        make_private_mounts(STAGING)
        die_with(parent)
        _attach_trees(order, trees)
    bubblewrap = _spawn(order, [*standard, *data])
    hide_from_tracers()
    # The ends of its pipes are its own: whoever waits for their closing must not wait for us.
    os.dup2(0, 2)
    close_all_but([channel, *doors])
    connection = _socket.socket(fileno=channel)
    pidfd = os.pidfd_open(bubblewrap)
    send_answer(connection, {"pid": bubblewrap}, [pidfd])
    os.close(pidfd)
    enter_sandbox(order["entrance"], connection, doors, parent=parent)


def _spawn(order: Order, descriptors: list[int]) -> int:
    """Bubblewrap, with these descriptors, numbered from 0, and no others.

    Between its clone and its first own words bubblewrap's child listens to nobody: should bubblewrap be
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


def _attach_trees(order: Order, opened: list[int]) -> None:
    for index, (name, path, is_directory) in enumerate(order["trees"]):
        target = f"{STAGING}/{name}"
        _make_mount_point(target, is_directory=is_directory)
        move_tree(opened[index] if opened else open_tree(path), target)
    for name, *layers in order["overlays"]:
        target = f"{STAGING}/{name}"
        _make_mount_point(target, is_directory=True)
        _mount_overlay(target, *[f"{STAGING}/{layer}" for layer in layers])


def _mount_overlay(target: str, lower: str, upper: str, work: str) -> None:
    """Mount it *volatile*: nothing in it waits for the disk, neither a program's fsync nor its own end.

    A workspace outlives no crash of the machine, and whatever is kept of one is synced where it is kept.
    Unmounting would otherwise write out everything that is unwritten on that whole file system. The kernel
    leaves a mark, so that nobody trusts the layers after a crash; those that are still here we trust.
    """
    try:
        os.unlink(f"{work}/{_VOLATILE_MARK}/dirty")  # noqa: PTH108 - without pathlib a fork is smaller
        os.rmdir(f"{work}/{_VOLATILE_MARK}")  # noqa: PTH106
    except OSError:  # it is mounted for the first time
        pass
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"
    system_call("mount", b"overlay", target.encode(), b"overlay", 0, options.encode())


def _make_mount_point(path: str, *, is_directory: bool) -> None:
    if is_directory:
        os.mkdir(path, 0o755)  # noqa: PTH102 - without pathlib a fork is smaller
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
