"""`environment.python`: a lock with hashes becomes a read-only tree of packages, once, offline ever after.

- Only wheels are installed: building from source would run the package's code with the harness's rights.
- A lock is complete, and is installed without resolving: a newer release on the index must change nothing.
  What it leaves out is found in the metadata of the installed packages, here and not in the middle of a run.
- The tree is a virtual environment that works at any path: scripts find their interpreter beside themselves,
  and the interpreter is a link to the host's. It holds the locked packages only, not even pip.
- Byte code is compiled with a fixed hash seed, is never checked against the source (both are read-only), and
  is the same in every build; so is the whole tree, whatever store it was built in.
- No code of a package runs while it is built: the tree's own interpreter is not started after installation,
  since `.pth` files of packages run at start.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.display import list_some, neutralize
from repotrial._core.remove_tree import remove_tree
from repotrial.contract import PythonEnvironment
from repotrial.environment._host import HostTool
from repotrial.environment._packages import (
    PACKAGE_BUILDER_MISSING,
    PACKAGE_HASH_MISMATCH,
    PACKAGE_INDEX_UNREACHABLE,
    PACKAGE_LOCK_INVALID,
    PACKAGE_PLATFORM,
    IndexSettings,
    Symptom,
    parse_requirements,
    read_log,
    render_requirements,
    verify_built,
)
from repotrial.environment._process import FinishedProgram, execute_program
from repotrial.environment._python_tree import relocate_tree
from repotrial.environment._store import Facts, Store, StoreEntry, StoreKind
from repotrial.environment._tools import SYSTEM_PATH
from repotrial.isolation import Bind

PYTHON_TARGET = "/opt/repotrial/python"
"""Where the tree appears in a sandbox; `bin` below it goes to the front of PATH."""

_LAYOUT = "repotrial/python-tree@1"
"""Part of every key: changes when the same lock would be built into another tree."""

REQUIREMENTS = "requirements.txt"
_MISSING = Path(__file__).with_name("_missing_child.py")
_SHOWN = 10
_SHOWN_CHARACTERS = 200

_ASK = """\
import json, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(), "cache_tag": sys.implementation.cache_tag,
    "platform": sysconfig.get_platform(), "libc": "-".join(platform.libc_ver()),
}))
"""

PIP_SYMPTOMS = (
    Symptom(pattern=r"no such option: --python", error=PACKAGE_BUILDER_MISSING),
    Symptom(pattern=r"DO NOT MATCH THE HASHES", error=PACKAGE_HASH_MISMATCH),
    Symptom(pattern=r"In --require-hashes mode", error=PACKAGE_LOCK_INVALID),
    Symptom(pattern=r"ResolutionImpossible|conflicting dependencies", error=PACKAGE_LOCK_INVALID),
    Symptom(
        pattern=r"Failed to establish a new connection|Temporary failure in name resolution|ConnectTimeout"
        r"|Connection (?:refused|broken|aborted|error)|connection error|ProxyError|SSLError"
        r"|Max retries exceeded|Retrying \(",
        error=PACKAGE_INDEX_UNREACHABLE,
        is_in_log=True,
    ),
    Symptom(
        pattern=r"not a supported wheel|requires a different Python|No matching distribution found"
        r"|Requires-Python",
        error=PACKAGE_PLATFORM,
    ),
)


class _Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    cache_tag: str
    platform: str
    libc: str


class PythonPackages(msgspec.Struct, frozen=True, kw_only=True):
    """A built environment."""

    path: Path
    tree_digest: Digest
    entry: StoreEntry

    @property
    def bind(self) -> Bind:
        """How a sandbox shows it."""
        return Bind(source=self.path, target=PYTHON_TARGET)


def open_python_environment(
    environment: PythonEnvironment,
    *,
    base: Path,
    interpreter: HostTool,
    store: Store,
    settings: IndexSettings,
    seconds: int = 1800,
) -> PythonPackages:
    """Find the environment of a lock in the store, or build it there.

    Args:
        environment: As the contract names it.
        base: The contract's directory.
        interpreter: The Python of the sandbox, as `observe_host` found it.
        store: Where environments are kept.
        settings: The machine's way to its package index.
        seconds: Time limit of the installation.

    Raises:
        PACKAGE_LOCK_INVALID: the lock is not one.
        PACKAGE_HASH_MISSING: a package in it has no hash.
        PACKAGE_HASH_MISMATCH: the index served something else.
        PACKAGE_INDEX_UNREACHABLE: no index could be reached.
        PACKAGE_PLATFORM: a package has no wheel for this interpreter and machine.
        PACKAGE_BUILDER_MISSING: this Python cannot make environments.
        PACKAGE_BUILD_FAILED: the installation failed for another reason.
        STORE_TAMPERED: the environment in the store was changed.
    """
    lock_path = base / environment.lock
    try:
        lock = lock_path.read_bytes()
    except OSError as error:
        raise PACKAGE_LOCK_INVALID.error(f"{lock_path}: expected a lock, found: {error.strerror}") from error
    requirements = render_requirements(parse_requirements(lock, environment.lock))
    builder = PythonBuilder(interpreter, store=store, settings=settings, seconds=seconds)
    facts: Facts = {
        "interpreter": str(interpreter.path.resolve()),
        "interpreter_digest": interpreter.binary_digest,
        "lock_digest": digest_bytes(lock),
        **{name: str(value) for name, value in msgspec.to_builtins(builder.ask()).items()},
    }
    key = canonical_digest({"layout": _LAYOUT, **{name: str(value) for name, value in facts.items()}})

    def build(tree: Path, held: int) -> Facts:
        builder.build(tree, requirements, held=held)
        return {**facts, "machine_settings": builder.setting_names}

    entry = store.make(StoreKind.PYTHON, key, build)
    return PythonPackages(path=entry.path, tree_digest=entry.record.tree_digest, entry=entry)


class PythonBuilder:
    """Runs one interpreter's own installer."""

    def __init__(self, interpreter: HostTool, *, store: Store, settings: IndexSettings, seconds: int) -> None:
        self._program = interpreter.path.resolve()
        self._interpreter = interpreter
        self.store = store
        self._settings = settings
        self.seconds = seconds

    @property
    def setting_names(self) -> tuple[str, ...]:
        """Which settings of the machine it uses, by name."""
        return tuple(sorted({*self._settings.pip, *self._settings.transport}))

    def ask(self) -> _Interpreter:
        """What the interpreter says of itself.

        Raises:
            PACKAGE_BUILDER_MISSING: it does not work.
        """
        finished = self._run("-I", "-S", "-c", _ASK)
        try:
            return msgspec.json.decode(finished.stdout, type=_Interpreter)
        except msgspec.MsgspecError as error:
            raise PACKAGE_BUILDER_MISSING.error(
                f"{self._program}: expected a working Python, found status {finished.status}"
            ) from error

    def build(
        self,
        tree: Path,
        requirements: str,
        *,
        held: int,
        has_hashes: bool = True,
        is_closed: bool = True,
    ) -> None:
        """Make a tree of packages.

        Args:
            tree: An empty directory.
            requirements: Lines as pip reads them.
            held: The lock of the tree.
            has_hashes: Whether they are a lock, with the hash of every file; otherwise pip resolves them.
            is_closed: Whether a lock that leaves out a dependency is a mistake.

        Raises:
            RepoTrialError: it failed; the class says why.
        """
        scratch = tree.parent / "scratch"
        scratch.mkdir()
        (scratch / REQUIREMENTS).write_text(requirements, encoding="utf-8")
        self._make_environment(tree, "--without-pip")
        self._install(tree, scratch, ["--require-hashes", "--no-deps"] if has_hashes else [], held=held)
        if has_hashes and is_closed:
            self.verify_complete(tree, scratch)
        remove_tree(scratch)
        relocate_tree(tree, self._program, version=self.ask().version)
        # The status tells only that some file of a package is no valid Python, as test data often is.
        self._run(
            *("-s", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(tree), "-p", PYTHON_TARGET, str(tree / "lib")),
        )

    def _make_environment(self, path: Path, *options: str) -> None:
        finished = self._run("-I", "-m", "venv", "--symlinks", *options, str(path))
        if finished.status != 0:
            said = (finished.stdout + finished.stderr).decode(errors="replace").strip().splitlines()
            raise PACKAGE_BUILDER_MISSING.error(
                f"{self._program}: expected to make a virtual environment, found: {' '.join(said)[:500]}"
            )

    def make_installer(self) -> Path:
        """An environment with the pip that came with the interpreter; made once for all locks."""
        facts: Facts = {
            "interpreter": str(self._program),
            "interpreter_digest": self._interpreter.binary_digest,
            "version": self._interpreter.version,
        }

        def build(tree: Path, _held: int) -> Facts:
            self._make_environment(tree)
            return facts

        key = canonical_digest({name: str(value) for name, value in facts.items()})
        return self.store.make(StoreKind.INSTALLER, key, build).path

    def _install(self, tree: Path, scratch: Path, chosen: list[str], *, held: int) -> None:
        log = scratch / "pip.log"
        options = ("--only-binary", ":all:", "--no-compile", "--no-cache-dir", *chosen)
        finished = execute_program(
            [
                *(str(self.make_installer() / "bin/python"), "-I", "-m", "pip"),
                *("--python", str(tree / "bin/python"), "install", *options),
                *("--no-warn-script-location", "-r", str(scratch / REQUIREMENTS)),
                # Why an index did not answer stands only there.
                *("--log", str(log)),
            ],
            variables=self.build_variables(scratch),
            seconds=self.seconds,
            cwd=scratch,
            held_fds=(held,),
        )
        verify_built(finished, "pip", PIP_SYMPTOMS, log=read_log(log))

    def verify_complete(self, tree: Path, scratch: Path, environment: str = "{}") -> None:
        """See that the packages have all that they need, with markers for another interpreter where told.

        Raises:
            PACKAGE_LOCK_INVALID: something is not there.
        """
        (packages,) = tree.glob("lib/python*/site-packages")
        finished = execute_program(
            [
                *(str(self.make_installer() / "bin/python"), "-I", str(_MISSING)),
                *(str(packages), str(scratch / REQUIREMENTS), environment),
            ],
            variables=self.build_variables(scratch),
            seconds=self.seconds,
        )
        verify_built(finished, "reading the installed packages", ())
        missing = finished.stdout.decode(errors="replace").splitlines()
        if missing:
            shown = [neutralize(line, max_characters=_SHOWN_CHARACTERS) for line in missing]
            raise PACKAGE_LOCK_INVALID.error(
                f"lock: expected all that its packages need, found no {list_some(shown, most=_SHOWN)}"
            )

    def ask_index(self, requirement: str) -> None:
        """See that an index answers and has a distribution in its exact version, for this machine.

        Raises:
            PACKAGE_INDEX_UNREACHABLE: no index could be reached.
            PACKAGE_PLATFORM: it has no such version, or none for this interpreter and machine.
            PACKAGE_BUILDER_MISSING: this Python cannot make environments.
            PACKAGE_BUILD_FAILED: something else went wrong.
        """
        with tempfile.TemporaryDirectory(prefix="repotrial-pip-") as name:
            scratch = Path(name)
            options = ("--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:")
            finished = execute_program(
                [
                    *(str(self.make_installer() / "bin/python"), "-I", "-m", "pip", "install", *options),
                    *("--retries", "0", "--no-cache-dir", "--log", str(scratch / "pip.log"), requirement),
                ],
                variables=self.build_variables(scratch),
                seconds=self.seconds,
                cwd=scratch,
            )
            verify_built(finished, "pip", PIP_SYMPTOMS, log=read_log(scratch / "pip.log"))

    def build_variables(self, scratch: Path) -> dict[str, str]:
        """All that pip sees of the machine."""
        return {
            **self._settings.pip,
            **self._settings.transport,
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PATH": SYSTEM_PATH,
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
        }

    def _run(self, *arguments: str) -> FinishedProgram:
        return execute_program(
            [str(self._program), *arguments],
            variables={"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
            seconds=self.seconds,
        )
