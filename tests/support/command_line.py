"""The command for tests: in this process where that is enough, as a real one where the process matters."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from repotrial.cli._app import build_command
from repotrial.cli._main import main

COMMAND = [sys.executable, "-m", "repotrial"]

_SWAYING = {
    "COLUMNS",
    "FORCE_COLOR",
    "NO_COLOR",
    "PYTHONCOERCECLOCALE",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "TTY_COMPATIBLE",
}
# So that Ctrl-C on it reaches the command.
_TAKE_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_OUR_STYLES = re.compile(r"\x1b\[(?:0|1|2|1;4|3[1-6]|1;3[1-6])m")
"""What the command itself writes to color a terminal."""


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


@contextlib.contextmanager
def surroundings(cwd: Path | None = None, **variables: str) -> Iterator[None]:
    """A place and environment variables for what runs in this process."""
    kept = dict(os.environ)
    os.environ.update(variables)
    try:
        with contextlib.chdir(cwd or "."):
            yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ended:
    """Run the command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([os.fspath(argument) for argument in arguments])
    said = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return Ended(stop.value.code, said.out, said.err)


def start(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start the command as a process of its own."""
    return subprocess.Popen([*COMMAND, *arguments], env=environment(env), cwd=cwd, **options)


def execute(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, **options: Any
) -> Ended:
    """Run the command as a process of its own."""
    streams: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with start(*arguments, env=env, cwd=cwd, **{**streams, **options}) as process:
        out, err = process.communicate(timeout=60)
    return Ended(process.returncode, (out or b"").decode(), (err or b"").decode())


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own, without what would color or encode the output, and with `changes`."""
    ours = {name: value for name, value in os.environ.items() if name not in _SWAYING}
    return {**ours, "LC_ALL": "C.UTF-8", "TERM": "xterm", **(changes or {})}


def converse(
    *arguments: str | Path,
    answers: Sequence[tuple[str, str]] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    columns: int = 80,
    seconds: float = 60,
) -> Ended:
    """Run the command on a terminal, and type an answer when its question has appeared."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(env),
        cwd=cwd,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        said, waiting, seen = b"", list(answers), 0
        deadline = time.monotonic() + seconds
        while chunk := _read(terminal, deadline):
            said += chunk
            while waiting and waiting[0][0].encode() in said[seen:]:
                question, answer = waiting.pop(0)
                seen = said.index(question.encode(), seen) + len(question)
                os.write(terminal, answer.encode())
        os.close(terminal)
    assert not waiting, f"never asked: {waiting}; said: {said!r}"
    return Ended(process.returncode, said.decode().replace("\r\n", "\n"), "")


def _read(terminal: int, deadline: float) -> bytes:
    ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
    try:
        return os.read(terminal, 65536) if ready else b""
    except OSError:  # Linux: the other side is closed
        return b""


def without_our_styles(said: str) -> str:
    """Output for a terminal without the colors that the command gives it; anybody else's stay."""
    return _OUR_STYLES.sub("", said)


def iter_commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb with the words that lead to it, as the parser sees it."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), build_command())]
    while pending:
        words, command = pending.pop(0)
        children = getattr(command, "commands", None)
        if children is None:
            yield words, command
        else:
            pending += [((*words, name), child) for name, child in children.items()]
