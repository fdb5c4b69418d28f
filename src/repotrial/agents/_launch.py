"""Starting an agent: from an adapter and what was installed to command lines, variables, files and mounts.

Nothing here starts anything. The caller makes a home (`fill_home`), opens a sandbox with the
launch's mounts and variables and a listener for the gateway, runs `prepare` and `argv`, and collects what the
agent wrote about itself (`collect_transcripts`) when the sandbox is closed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.agents._install import InstalledAgent, InstalledTree
from repotrial.agents._load import fill_template
from repotrial.agents._model import Adapter, Transcript
from repotrial.isolation import WORKSPACE, Account, Bind

AGENT_HOME: Final = "/home/agent"
"""Where an agent's home appears inside."""
AGENT_PREFIX: Final = "/opt/repotrial/program"
"""Where an installed agent appears inside."""

_TASK_FILE: Final = ".repotrial/task.md"
_MOST_ARGUMENT_BYTES: Final = 100_000
"""The kernel takes 128 KiB for one argument."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
"""What neither a command line nor a configuration file of any kind reads as anything but text."""
_COMMON: Final = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    # Sandboxes refuse io_uring and record who tries; Node.js up to 20 can be told not to.
    "UV_USE_IO_URING": "0",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@example.org",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@example.org",
    # The workspace may belong to another id than the agent's.
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": WORKSPACE,
    # An agent that finds no name here writes one into the workspace's own configuration.
    "GIT_CONFIG_KEY_1": "user.name",
    "GIT_CONFIG_VALUE_1": "agent",
    "GIT_CONFIG_KEY_2": "user.email",
    "GIT_CONFIG_VALUE_2": "agent@example.org",
}


MODEL_NAME = ErrorCode(
    "model-name",
    UsageError,
    "A model's name has characters that no configuration file could hold.",
    hint="use letters, digits and any of . _ : / @ + -",
)


_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What one run wants of an agent."""

    url: str
    """The gateway's address inside the sandbox."""
    key: str
    """The run's own key for the gateway."""
    model: str
    """The model's name; the adapter's own unless the operator chose."""
    task: str
    """The briefing."""
    search_path: str
    """`PATH` inside the sandbox, for login shells that would lose it."""
    turns: int | None = None
    """At most so many, where the agent can be told."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that starts an agent."""

    argv: tuple[str, ...]
    """The agent; standard input is empty."""
    prepare: tuple[tuple[str, ...], ...]
    """What runs before it, in the same sandbox; each must succeed."""
    probe: tuple[str, ...]
    """What ends well, without a model, wherever the program can run."""
    variables: Mapping[str, str]
    """On top of the sandbox's own."""
    files: Mapping[str, bytes]
    """Path in the home to content."""
    binds: tuple[Bind, ...]
    """The installed tree and what starts it, read-only; the home comes on top."""
    transcripts: tuple[Transcript, ...]
    """What the agent writes about its own work."""


def build_launch(adapter: Adapter, installed: InstalledAgent, order: LaunchOrder) -> Launch:
    """Fill an adapter's templates.

    Raises:
        MODEL_NAME: the model's name could break out of a configuration file.
    """
    for name, value in (("model", order.model), ("key", order.key), ("url", order.url)):
        if _PLAIN.fullmatch(value) is None:
            raise MODEL_NAME.error(f"{name}: expected a plain name, found {value!r}")
    program, runtime = _locate_program(installed)
    values = {
        "url": order.url.rstrip("/"),
        "key": order.key,
        "model": order.model,
        "task": _build_task(order.task),
        "task_file": f"{AGENT_HOME}/{_TASK_FILE}",
        "home": AGENT_HOME,
        "prefix": AGENT_PREFIX,
        "program": program,
        "retries": str(adapter.caps.retries),
        "context_tokens": str(adapter.caps.context_tokens or ""),
        "turns": str(order.turns),
    }
    turns = () if order.turns is None else adapter.caps.turns
    launch = adapter.launch
    own = {name: fill_template(text, values) for name, text in launch.variables.items()}
    files = {name: fill_template(text, values).encode() for name, text in launch.files.items()}
    return Launch(
        argv=_fill_command((*launch.argv, *turns), values, runtime),
        prepare=tuple(_fill_command(argv, values, runtime) for argv in launch.prepare),
        probe=_fill_command(launch.probe, values, runtime),
        variables={**_COMMON, "HOME": AGENT_HOME, **own},
        files={**_build_profiles(order.search_path), _TASK_FILE: order.task.encode(), **files},
        binds=() if installed.tree is None else _build_binds(installed.tree),
        transcripts=adapter.transcripts,
    )


def _fill_command(
    argv: tuple[str, ...], values: Mapping[str, str], runtime: tuple[str, ...]
) -> tuple[str, ...]:
    """A command line; a script gets its interpreter by absolute path, which no `PATH` can change."""
    filled = tuple(fill_template(word, values) for word in argv)
    return (*runtime, *filled) if argv[0] == "{program}" else filled


def _locate_program(installed: InstalledAgent) -> tuple[str, tuple[str, ...]]:
    """The program inside, and what starts it."""
    tree = installed.tree
    if tree is None:
        return installed.program, ()
    program = f"{AGENT_PREFIX}/{installed.program}"
    if tree.runtime is None or tree.runtime.name == "python":
        return program, ()  # scripts of a Python tree find the interpreter beside themselves
    return program, (str(tree.runtime.path.resolve()),)


def _build_binds(tree: InstalledTree) -> tuple[Bind, ...]:
    shown = [Bind(source=tree.path, target=AGENT_PREFIX)]
    root: Path | None = None if tree.runtime is None else tree.runtime.root
    if root is not None:
        shown.append(Bind(source=root, target=str(root)))
    return tuple(shown)


def _build_task(task: str) -> str:
    if len(task.encode()) <= _MOST_ARGUMENT_BYTES:
        # Not an option, whatever it begins with.
        return f"\n{task}" if task.startswith("-") else task
    return f"Read the file {AGENT_HOME}/{_TASK_FILE} to its end: it is your task. Do what it says."


def _build_profiles(search_path: str) -> dict[str, bytes]:
    """A login shell reads the system's profile, which replaces `PATH`; the user's comes after it."""
    text = f"export PATH={shlex.quote(search_path)}\n".encode()
    return {".profile": text, ".bash_profile": text}


def fill_home(place: Path, files: Mapping[str, bytes], *, owner: Account | None) -> Bind:
    """Make a home and put files into it; how a sandbox shows it.

    Args:
        place: An empty directory of the harness's, such as a scratch place.
        files: Path in the home to content.
        owner: The account that programs inside have, where it is not ours.
    """
    home = place / "home"
    make_directory(home, owner)
    for name, data in files.items():
        path = home / name
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            if not (home / parent).is_dir():
                make_directory(home / parent, owner)
        with os.fdopen(os.open(path, _CREATE, 0o600), "wb") as stream:
            stream.write(data)
            if owner is not None:
                os.fchown(stream.fileno(), owner.uid, owner.gid)
    return Bind(source=home, target=AGENT_HOME, is_writable=True)


def make_directory(path: Path, owner: Account | None) -> None:
    """A directory for the account that works in it alone."""
    path.mkdir(mode=0o700)
    path.chmod(0o700)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)
