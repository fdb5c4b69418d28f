"""The agent's own test, build and lint commands, run again at their points (P28)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial.environment import Installation, SandboxRequest
from repotrial.isolation import CommandSpec
from repotrial.policy import Program, ProgramTree
from repotrial.run._accept._candidate import apply_patch_inside
from repotrial.shell import is_test_command
from repotrial.trace import Event, Exited, ToolInvocation, describe_exit

_MOST: Final = 40
"""Commands that are run again; more are counted."""
_MOST_CHARACTERS: Final = 200


class ReplayDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came out differently the second time."""

    what: str
    """Which execution, or which path."""
    recorded: str
    """What the record says."""
    replayed: str
    """What came out now."""


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a command again."""

    argv: tuple[str, ...]
    cwd: str | None
    exit: Exited
    """As recorded."""


class KeyCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command of the agent whose outcome is worth comparing."""

    seq: int
    readings: tuple[_Reading, ...]
    """The program itself; and the line that started it, which may set variables that no record has."""


def find_commands(events: Iterable[Event]) -> dict[int, KeyCommand]:
    """Commands that ran to their end, by the event of their start."""
    tree = ProgramTree()
    found: dict[int, KeyCommand] = {}
    for event in events:
        tree.take(event)
        if isinstance(event.payload, ToolInvocation):
            found.update(_find_first_release(event.payload, event.seq))
    for program in tree.list_key_programs():
        readings = tuple(_iter_readings(program))
        if readings:
            found[program.seq] = KeyCommand(seq=program.seq, readings=readings)
    return found


def _find_first_release(invocation: ToolInvocation, seq: int) -> dict[int, KeyCommand]:
    """A test command as runs without a witness have it."""
    command, status = invocation.command, invocation.exit
    if command is None or not isinstance(status, Exited) or not is_test_command(command.argv):
        return {}
    return {seq: KeyCommand(seq=seq, readings=(_Reading(argv=command.argv, cwd=None, exit=status),))}


def _iter_readings(program: Program) -> Iterator[_Reading]:
    line = program
    while line.above is not None and line.above.is_starter and line.above.start.command is not None:
        line = line.above
    for each in dict.fromkeys((program, line)):
        status, start = each.exit, each.start
        if isinstance(status, Exited) and start.argv and not start.truncated:
            yield _Reading(argv=start.argv, cwd=start.cwd or None, exit=status)


class CommandReplay:
    """Runs commands again on the tree of their point.

    A step may change files before its test runs: what differs on the tree before it is tried after it, too.
    """

    def __init__(self, installation: Installation, commands: dict[int, KeyCommand]) -> None:
        self._installation = installation
        self._commands = commands
        self._waiting: list[tuple[KeyCommand, str]] = []
        self._known: dict[tuple[tuple[str, ...], str | None, str], str] = {}
        self.count = 0
        """Commands that were run again."""
        self.left_out = 0

    def take(self, seq: int, build_patch: Callable[[], bytes]) -> None:
        """Come to an event; a command that began there is run on the tree as it was."""
        command = self._commands.get(seq)
        if command is None:
            return
        if self.count >= _MOST:
            self.left_out += 1
            return
        self.count += 1
        replayed = self._run_readings(command, build_patch())
        if replayed is not None:
            self._waiting.append((command, replayed))

    def settle(self, build_patch: Callable[[], bytes]) -> Iterator[ReplayDivergence]:
        """The tree has changed: what came out otherwise is tried on it once more."""
        waiting, self._waiting = self._waiting, []
        for command, _ in waiting:
            replayed = self._run_readings(command, build_patch())
            if replayed is not None:
                yield _describe(command, replayed)

    def conclude(self) -> Iterator[ReplayDivergence]:
        """No change followed: what came out otherwise stays so."""
        yield from (_describe(command, replayed) for command, replayed in self._waiting)
        self._waiting = []

    def _run_readings(self, command: KeyCommand, patch: bytes) -> str | None:
        """How it ended if not as recorded, in the first reading; None if it did."""
        first = ""
        for reading in command.readings:
            ended = self._run(reading, patch)
            if ended == describe_exit(reading.exit):
                return None
            first = first or ended
        return first

    def _run(self, reading: _Reading, patch: bytes) -> str:
        """On a copy of the tree: what a command leaves behind must not enter the change."""
        key = (reading.argv, reading.cwd, digest_bytes(patch))
        if key not in self._known:
            with self._installation.open_workspace() as workspace:
                apply_patch_inside(self._installation, workspace, patch)
                with self._installation.open_sandbox(workspace, SandboxRequest(phase="act")) as sandbox:
                    spec = CommandSpec(
                        argv=reading.argv,
                        timeout_seconds=self._installation.loaded.contract.limits.command_seconds,
                    )
                    if reading.cwd is not None:
                        spec = msgspec.structs.replace(spec, cwd=reading.cwd)
                    self._known[key] = describe_exit(sandbox.run(spec).exit)
        return self._known[key]


def _describe(command: KeyCommand, replayed: str) -> ReplayDivergence:
    first = command.readings[0]
    return ReplayDivergence(
        what=f"event {command.seq}: {shlex.join(first.argv)[:_MOST_CHARACTERS]}",
        recorded=describe_exit(first.exit),
        replayed=replayed,
    )
