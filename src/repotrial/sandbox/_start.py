"""A child of the launch server becomes bubblewrap: it mounts what must be mounted first, then executes it.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import os
import signal
from typing import Any, Final, NamedTuple, NoReturn

from repotrial.sandbox._confine import (
    close_all_but,
    die_with,
    make_private_mounts,
    move_tree,
    open_tree,
    unshare_processes,
)
from repotrial.sandbox._kernel import system_call

__all__ = ["STAGING", "Overlay", "StartOrder", "Tree", "data_slot", "start_bubblewrap"]

STAGING: Final = "/sys"
"""Where trees are attached, out of sight of the host: this directory exists everywhere, and neither
bubblewrap nor a sandbox needs what is in it."""

_ARGUMENTS_SLOT, _IDLE_SLOT, _FIRST_DATA_SLOT = 3, 4, 5
_ALL_SIGNALS: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_OUT_OF_THE_WAY: Final = 512
"""Descriptors are moved above this number before they are put into their places."""


class Tree(NamedTuple):
    """A directory or file of the host that appears under the staging directory."""

    name: str
    path: str
    is_directory: bool = True


class Overlay(NamedTuple):
    """An overlay between staged trees; `upper` and `work` are directories in one tree."""

    name: str
    lower: str
    upper: str
    work: str


class StartOrder(NamedTuple):
    """What to execute. Everything in it was decided by the harness."""

    bubblewrap: str
    label: str
    """What bubblewrap is called in lists of processes."""
    arguments: list[str]
    is_staged: bool
    """Whether it runs in namespaces of our own, where trees can be attached."""
    trees: list[Tree]
    overlays: list[Overlay]
    opened_trees: int
    """How many trees the harness has opened: all of them (it is root), or none."""
    data: int
    """How many descriptors with the contents of small files come along."""

    @staticmethod
    def parse(body: dict[str, Any]) -> StartOrder:
        order = StartOrder(**body)
        return order._replace(
            trees=[Tree(*tree) for tree in order.trees],
            overlays=[Overlay(*overlay) for overlay in order.overlays],
        )


def data_slot(index: int) -> int:
    """Where bubblewrap finds the contents of the small file with this index."""
    return _FIRST_DATA_SLOT + index


def start_bubblewrap(order: StartOrder, descriptors: list[int], *, parent: int) -> NoReturn:
    """Become bubblewrap, which becomes a sandbox; or its parent.

    Args:
        order: What the harness wants.
        descriptors: Lifeline, ready, error and the first program; then the small files and the trees.
        parent: The launch server, with whom everything ends.

    Raises:
        OSError: A mount or a program is refused.
    """
    standard, rest = descriptors[:4], descriptors[4:]
    data, opened = rest[: order.data], rest[order.data :]
    os.dup2(standard[2], 2)
    die_with(parent)
    if order.is_staged:
        make_private_mounts(STAGING)
        die_with(parent)
        _attach_trees(order, opened)
    lifeline, ready, error, idle = standard
    _place([lifeline, ready, error, _hand_over(order.arguments), idle, *data])
    # Whatever stands in this environment and on this command line could be read inside.
    command = [order.label, "--args", str(_ARGUMENTS_SLOT), f"/proc/self/fd/{_IDLE_SLOT}"]
    if order.is_staged:
        _become_parent(order.bubblewrap, command)
    for number in _ALL_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.execve(order.bubblewrap, command, {})  # noqa: S606 (no shell is wanted)


def _become_parent(bubblewrap: str, command: list[str]) -> NoReturn:
    """Start bubblewrap as the first process of a PID namespace, and wait for its end.

    Between its clone and its first own words bubblewrap's child listens to nobody: should bubblewrap be
    killed in that moment, the child would wait for it for ever. In a namespace whose first process is
    bubblewrap itself, the kernel kills both.
    """
    unshare_processes()
    child = os.posix_spawn(bubblewrap, command, {}, setsigdef=_ALL_SIGNALS)
    # The ends of its pipes are its own: whoever waits for their closing must not wait for us.
    os.closerange(0, _OUT_OF_THE_WAY)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def _attach_trees(order: StartOrder, opened: list[int]) -> None:
    for index, tree in enumerate(order.trees):
        target = f"{STAGING}/{tree.name}"
        _make_mount_point(target, is_directory=tree.is_directory)
        move_tree(opened[index] if opened else open_tree(tree.path), target)
    for overlay in order.overlays:
        target = f"{STAGING}/{overlay.name}"
        _make_mount_point(target, is_directory=True)
        options = (
            f"lowerdir={STAGING}/{overlay.lower},upperdir={STAGING}/{overlay.upper}"
            f",workdir={STAGING}/{overlay.work},userxattr"
        )
        system_call("mount", b"overlay", target.encode(), b"overlay", 0, options.encode())


def _make_mount_point(path: str, *, is_directory: bool) -> None:
    if is_directory:
        os.mkdir(path, 0o755)  # noqa: PTH102 - without pathlib a fork is smaller
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _hand_over(arguments: list[str]) -> int:
    """The options in a file that has no name: command lines can be read by everyone."""
    file = os.memfd_create("arguments", 0)
    content = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _place(descriptors: list[int]) -> None:
    """Number the descriptors from 0, and leave no other."""
    for slot, descriptor in enumerate(descriptors):
        os.dup2(descriptor, _OUT_OF_THE_WAY + slot, inheritable=False)
    for slot in range(len(descriptors)):
        os.dup2(_OUT_OF_THE_WAY + slot, slot, inheritable=True)
    close_all_but(range(len(descriptors)))
