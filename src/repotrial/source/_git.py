"""The one place where git is started: nothing from the user, the machine or the repository steers it.

The environment starts empty, so no credential, proxy, hook, alias, filter, signing key or pager of the user
is found; only ssh looks for the account's keys and known hosts, whatever it is told. Git is only ever pointed
at repositories that this package made a moment ago (`_store`): someone else's `.git` is never opened as a
repository, its configuration is never in effect, and no `safe.directory` exception is needed, since the
directory git works in always belongs to this process's user.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.source._tree import DEFAULT_OPTIONS, SourceOptions

MINIMUM_GIT = (2, 30)
"""The oldest release with `fetch --no-write-fetch-head` and `init --object-format` that is still shipped."""

_CHUNK_BYTES = 1 << 16
_SHOWN_CHARACTERS = 1500

_CONFIGURATION = (
    # Programs that configuration can start.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    # Bytes stay as they were committed.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.symlinks=true",
    "core.untrackedCache=false",
    # Indexes that the source wrote beside its objects could name other objects than it has.
    "core.commitGraph=false",
    "core.multiPackIndex=false",
    # Nothing is fetched but what was asked for.
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
    "protocol.allow=never",
    "http.followRedirects=initial",
    "http.emptyAuth=false",
)


GIT_MISSING = ErrorCode(
    "git-missing",
    MachineError,
    "Git is not installed, or not on the search path.",
    hint="install git 2.30 or later, for example with `apt install git` or `brew install git`",
)
GIT_TOO_OLD = ErrorCode(
    "git-too-old",
    MachineError,
    "The installed git lacks options that reading a repository safely depends on.",
    hint="install git 2.30 or later and put it first on PATH",
)
GIT_TIMEOUT = ErrorCode(
    "git-timeout",
    MachineError,
    "A git command did not finish within its time limit and was ended, with everything it had started.",
    hint="try again with a better connection, or put a bundle beside the contract",
)
GIT_OUTPUT_LIMIT = ErrorCode(
    "git-output-limit",
    MachineError,
    "A git command printed more than its limit and was ended.",
    hint="restrict the command to fewer paths",
)


class GitCommandError(MachineError):
    """Git ended with a failure; callers decide what that means."""


GIT_COMMAND_FAILED = ErrorCode(
    "git-command-failed",
    GitCommandError,
    "A git command failed; the message holds what git itself said.",
    hint="run `repotrial doctor` and check that the repository is whole (`git fsck`)",
)


def find_git(options: SourceOptions = DEFAULT_OPTIONS) -> Path:
    """Where git is, once it is known to be young enough.

    Raises:
        GIT_MISSING: there is no git.
        GIT_TOO_OLD: it is older than `MINIMUM_GIT`.
    """
    return _find_git(_search_path(options))


def parse_git_version(text: str) -> tuple[int, int]:
    """Read `git version 2.39.5 (vendor)` and its like.

    Raises:
        GIT_TOO_OLD: the text holds no version.
    """
    match = re.search(r"\b(\d+)\.(\d+)", text)
    if match is None:
        raise GIT_TOO_OLD.error(f"expected `git version` to print a version, found {_clean(text.encode())!r}")
    return int(match[1]), int(match[2])


def execute_git(
    args: Sequence[str | bytes],
    *,
    home: Path,
    git_dir: Path | None = None,
    options: SourceOptions = DEFAULT_OPTIONS,
    protocols: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> bytes:
    """Run one git command to its end and return what it printed.

    Args:
        args: Subcommand and arguments; whatever comes from outside stands behind `--` or is a checked hash.
        home: An empty directory of ours: the command's HOME and working directory.
        git_dir: A repository that this package made, or None for commands that need none.
        options: Time and output limits.
        protocols: Transports that this command may use; none unless told.
        variables: Additional environment.
        stdin: What the command reads.

    Raises:
        GIT_COMMAND_FAILED: the command failed.
        GIT_TIMEOUT: it took too long.
        GIT_OUTPUT_LIMIT: it printed too much.
    """
    argv = _argv(args, git_dir=git_dir, protocols=protocols, options=options)
    environment = _environment(home, protocols=protocols, search_path=_search_path(options))
    environment.update(variables or {})
    return _run(argv, home=home, environment=environment, options=options, stdin=stdin)


class GitProcess:
    """A git command that answers questions: requests go in, answers come out, until the time is up."""

    def __init__(self, process: subprocess.Popen[bytes], *, seconds: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.requests: IO[bytes] = process.stdin
        self.answers: IO[bytes] = process.stdout
        self._process = process
        self._seconds = seconds
        self._expired = threading.Event()
        self._watchdog = threading.Timer(seconds, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    def verify_in_time(self) -> None:
        """When answers stop: say whether it was our doing.

        Raises:
            GIT_TIMEOUT: the process was ended because its time was up.
        """
        if self._expired.is_set():
            raise GIT_TIMEOUT.error(
                f"expected git to answer within {self._seconds} s, found it still at work"
            )

    def close(self) -> None:
        self._watchdog.cancel()
        self._watchdog.join()
        _kill_group(self._process)
        with contextlib.suppress(BrokenPipeError):
            self.requests.close()
        self.answers.close()
        self._process.wait()

    def _expire(self) -> None:
        self._expired.set()
        _kill_group(self._process)


@contextlib.contextmanager
def open_git(
    args: Sequence[str], *, home: Path, git_dir: Path, options: SourceOptions = DEFAULT_OPTIONS
) -> Iterator[GitProcess]:
    """Start a git command that is fed and read bit by bit; it is gone when the block ends."""
    process = _start(
        _argv(args, git_dir=git_dir, protocols=(), options=options),
        home=home,
        environment=_environment(home, protocols=(), search_path=_search_path(options)),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    conversation = GitProcess(process, seconds=options.git_seconds)
    try:
        yield conversation
    finally:
        conversation.close()


def _search_path(options: SourceOptions) -> str:
    path = os.environ.get("PATH", os.defpath) if options.search_path is None else options.search_path
    # A relative entry would let the current directory choose the program.
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())


@functools.cache
def _find_git(search_path: str) -> Path:
    program = shutil.which("git", path=search_path) if search_path else None
    if program is None:
        raise GIT_MISSING.error(f"expected the program git, found none on the search path {search_path!r}")
    with tempfile.TemporaryDirectory(prefix="repotrial-git-") as name:
        home = Path(name)
        environment = _environment(home, protocols=(), search_path=search_path)
        printed = _run([program, "version"], home=home, environment=environment, options=DEFAULT_OPTIONS)
    found = parse_git_version(printed.decode(errors="replace"))
    if found < MINIMUM_GIT:
        expected = ".".join(map(str, MINIMUM_GIT))
        raise GIT_TOO_OLD.error(f"expected git {expected} or later, found {found[0]}.{found[1]} at {program}")
    return Path(program)


def _argv(
    args: Sequence[str | bytes], *, git_dir: Path | None, protocols: Sequence[str], options: SourceOptions
) -> list[str | bytes]:
    argv: list[str | bytes] = [str(find_git(options)), "--no-pager"]
    for setting in (*_CONFIGURATION, *(f"protocol.{name}.allow=always" for name in protocols)):
        argv += ["-c", setting]
    if git_dir is not None:
        argv.append(f"--git-dir={git_dir}")
    return [*argv, *args]


def _environment(home: Path, *, protocols: Sequence[str], search_path: str) -> dict[str, str]:
    return {
        "PATH": search_path,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(home.parent),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "SSH_ASKPASS_REQUIRE": "never",
        # ssh looks for its configuration in the account's home whatever HOME says, hence -F.
        "GIT_SSH_COMMAND": "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes",
        "GIT_SSH_VARIANT": "ssh",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PROTOCOL_FROM_USER": "0",
        # An empty list would mean "no restriction" to some releases; `none` is no transport.
        "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none",
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_FLUSH": "1",
    }


def _start(
    argv: Sequence[str | bytes], *, home: Path, environment: Mapping[str, str], stdin: int, stderr: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            cwd=home,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise GIT_COMMAND_FAILED.error(f"expected to start `{_name(argv)}`, found: {error}") from error


def _run(
    argv: Sequence[str | bytes],
    *,
    home: Path,
    environment: Mapping[str, str],
    options: SourceOptions,
    stdin: bytes = b"",
) -> bytes:
    # A file as standard input, so that there is nothing to feed while the output is read.
    with tempfile.TemporaryFile(dir=home) as requests:
        requests.write(stdin)
        requests.seek(0)
        process = _start(
            argv, home=home, environment=environment, stdin=requests.fileno(), stderr=subprocess.PIPE
        )
        with process:
            try:
                output, errors = _collect(process, options)
            except BaseException:
                _kill_group(process)
                raise
    if process.returncode != 0:
        raise GIT_COMMAND_FAILED.error(
            f"expected `{_name(argv)}` to succeed, found exit status {process.returncode}: {_clean(errors)}"
        )
    return output


def _collect(process: subprocess.Popen[bytes], options: SourceOptions) -> tuple[bytes, bytes]:
    """Read both streams to their ends, within the limits; then wait for the exit status."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + options.git_seconds
    buffers = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for handle in buffers:
            selector.register(handle, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise GIT_TIMEOUT.error(
                    f"expected `{_name(process.args)}` to end within {options.git_seconds} s"
                )
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                buffers[key.fd] += chunk
            if sum(map(len, buffers.values())) > options.output_bytes:
                raise GIT_OUTPUT_LIMIT.error(
                    f"expected at most {options.output_bytes} bytes from `{_name(process.args)}`"
                )
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise GIT_TIMEOUT.error(
            f"expected `{_name(process.args)}` to end within {options.git_seconds} s"
        ) from error
    output, errors = buffers.values()
    return bytes(output), bytes(errors)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End git and what it started; the group id is git's own, since it was started in a new session."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _name(argv: object) -> str:
    """The subcommand alone: arguments may hold addresses."""
    known = {"init", "fetch", "bundle", "config", "update-ref", "rev-parse", "diff", "diff-tree", "version"}
    words = argv if isinstance(argv, Sequence) else ()
    return next((f"git {word}" for word in words if word in known), "git")


def _clean(text: bytes) -> str:
    """Git's own words without the control characters that a remote could send to the terminal."""
    decoded = text[-4 * _SHOWN_CHARACTERS :].decode("utf-8", errors="replace")
    lines = ("".join(char for char in line if char.isprintable()).strip() for line in decoded.splitlines())
    return "; ".join(line for line in lines if line)[-_SHOWN_CHARACTERS:] or "no message"
