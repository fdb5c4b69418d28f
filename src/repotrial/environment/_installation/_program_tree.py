"""Programs that the harness brings into sandboxes, such as agents: installed once, read-only ever after.

An index is reachable only while a tree is made, and nothing of a package runs then with the harness's rights:
install scripts, where a recipe wants them, run in a sandbox without network.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

import msgspec
import orjson

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes, digest_file
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import Level
from repotrial.environment._host import HostTool
from repotrial.environment._installation._sandbox import describe_end, render_tail
from repotrial.environment._node_env import ask_registry, execute_npm, find_npm, verify_node_lock
from repotrial.environment._packages import IndexSettings, parse_requirements, render_requirements
from repotrial.environment._python_env import PythonBuilder
from repotrial.environment._store import Facts, Store, StoreEntry, StoreKind
from repotrial.environment._tools import SYSTEM_PATH
from repotrial.isolation import (
    WORKSPACE,
    CommandSpec,
    HostRoot,
    ResourceLimits,
    SandboxSpec,
    find_identity,
    open_sandbox,
)
from repotrial.trace import Exited

_LAYOUT: Final = "repotrial/program-tree@1"
"""Part of every key: changes when the same recipe would be made into another tree."""
_MEMORY_MB: Final = 4096


INSTALL_SCRIPT = ErrorCode(
    "install-script",
    MachineError,
    "An install script of a package failed; it runs in a sandbox without network.",
    hint="use a version that needs no script, or name the program that its platform package brings",
)


class ProgramTree(msgspec.Struct, frozen=True, kw_only=True):
    """Installed programs."""

    path: Path
    tree_digest: Digest
    entry: StoreEntry


class ProgramSource(Protocol):
    """What a tree is made from."""

    @property
    def key(self) -> Digest:
        """Equal for what makes the same tree."""
        ...

    def ask_index(self, *, settings: IndexSettings, seconds: int) -> None:
        """See that an index answers and has what is wanted, without installing it."""
        ...

    def build(self, tree: Path, held: int, *, settings: IndexSettings, seconds: int) -> Facts:
        """Fill an empty directory."""
        ...


def open_program_tree(
    source: ProgramSource, *, store: Store, settings: IndexSettings, seconds: int = 1800
) -> ProgramTree:
    """Find programs in the store, or install them there; of several processes at once, one does.

    Args:
        source: What to make it from.
        store: Where trees are kept.
        settings: The machine's way to package indexes.
        seconds: Time limit of the installation.

    Raises:
        PACKAGE_LOCK_INVALID: a lock is not one, or does not fit.
        PACKAGE_HASH_MISSING: a package in it has no hash.
        PACKAGE_HASH_MISMATCH: the index served something else.
        PACKAGE_INDEX_UNREACHABLE: no index could be reached.
        PACKAGE_VERSION_MISSING: the index does not have a version.
        PACKAGE_PLATFORM: a package is not for this machine.
        PACKAGE_BUILDER_MISSING: there is no installer.
        PACKAGE_BUILD_FAILED: the installation failed for another reason.
        INSTALL_SCRIPT: a script of a package failed.
        STORE_TAMPERED: the tree in the store was changed.
    """
    entry = store.make(
        StoreKind.AGENT,
        source.key,
        lambda tree, held: source.build(tree, held, settings=settings, seconds=seconds),
    )
    return ProgramTree(path=entry.path, tree_digest=entry.record.tree_digest, entry=entry)


class NpmPrograms:
    """Packages of an npm registry, with exact versions.

    Args:
        packages: `name@version` each.
        node: The Node.js that installs and, maybe, runs them.
        lock: A `package-lock.json` for exactly these; None: npm chooses what they depend on.
        has_scripts: Whether install scripts run.
    """

    def __init__(
        self, packages: tuple[str, ...], *, node: HostTool, lock: bytes | None, has_scripts: bool
    ) -> None:
        self._packages = packages
        self._node = node
        self._lock = lock
        self._has_scripts = has_scripts

    @cached_property
    def _facts(self) -> Facts:
        npm = find_npm(self._node)
        return {
            "packages": self._packages,
            "lock_digest": "none" if self._lock is None else digest_bytes(self._lock),
            "scripts": str(self._has_scripts),
            "node": f"{self._node.version} {self._node.binary_digest}",
            "npm_digest": digest_file(npm.parent.parent / "package.json"),
        }

    @property
    def key(self) -> Digest:
        return _build_key("npm", self._facts)

    def ask_index(self, *, settings: IndexSettings, seconds: int) -> None:
        """See that the registry answers and has every package."""
        for package in self._packages:
            ask_registry(self._node, package, settings, seconds=seconds)

    def build(self, tree: Path, held: int, *, settings: IndexSettings, seconds: int) -> Facts:
        """Fill an empty directory with `node_modules`."""
        wanted = dict(package.rsplit("@", 1) for package in self._packages)
        manifest = {"name": "programs", "version": "1.0.0", "private": True, "dependencies": wanted}
        files = {"package.json": orjson.dumps(manifest)}
        if self._lock is not None:
            verify_node_lock(self._lock, "package-lock.json", files=set())
            files["package-lock.json"] = self._lock
        verb = "install" if self._lock is None else "ci"
        command = [str(self._node.path.resolve()), str(find_npm(self._node)), verb]
        lock = execute_npm(command, tree, files, settings, seconds=seconds, held=held)
        if self._has_scripts:
            _execute_scripts(tree, self._node, manifest=files["package.json"], seconds=seconds)
        return {
            **self._facts,
            "resolved": _list_resolved(lock),
            "machine_settings": tuple(sorted({*settings.npm, *settings.transport})),
        }


class PypiPrograms:
    """Distributions of a Python package index, with exact versions.

    Args:
        requirements: `name==version` each.
        interpreter: The Python that installs and runs them.
        store: Where its installer is kept.
        lock: A requirements file with hashes for all that they need; None: pip chooses.
        is_closed: Whether the lock holds everything that they ask for; otherwise it is installed as it is.
    """

    def __init__(
        self,
        requirements: tuple[str, ...],
        *,
        interpreter: HostTool,
        store: Store,
        lock: bytes | None,
        is_closed: bool = True,
    ) -> None:
        self._requirements = requirements
        self._interpreter = interpreter
        self._store = store
        self._lock = lock
        self._is_closed = is_closed or lock is None

    @cached_property
    def _facts(self) -> Facts:
        return {
            "requirements": self._requirements,
            "lock_digest": "none" if self._lock is None else digest_bytes(self._lock),
            "interpreter": str(self._interpreter.path.resolve()),
            "interpreter_digest": self._interpreter.binary_digest,
            "version": self._interpreter.version,
            **({} if self._is_closed else {"is_closed": "false"}),
        }

    @property
    def key(self) -> Digest:
        return _build_key("pypi", self._facts)

    def ask_index(self, *, settings: IndexSettings, seconds: int) -> None:
        """See that the index answers and has every distribution."""
        builder = PythonBuilder(self._interpreter, store=self._store, settings=settings, seconds=seconds)
        for requirement in self._requirements:
            builder.ask_index(requirement)

    def build(self, tree: Path, held: int, *, settings: IndexSettings, seconds: int) -> Facts:
        """Fill an empty directory with a virtual environment that works anywhere."""
        if self._lock is None:
            text = "".join(f"{line}\n" for line in self._requirements)
        else:
            text = render_requirements(parse_requirements(self._lock, "requirements lock"))
        builder = PythonBuilder(self._interpreter, store=self._store, settings=settings, seconds=seconds)
        has_hashes = self._lock is not None
        builder.build(tree, text, held=held, has_hashes=has_hashes, is_closed=self._is_closed)
        found = tree.glob("lib/python*/site-packages/*.dist-info")
        return {
            **self._facts,
            "resolved": tuple(sorted(path.name.removesuffix(".dist-info") for path in found)),
            "machine_settings": tuple(sorted({*settings.pip, *settings.transport})),
        }


def _build_key(kind: str, facts: Facts) -> Digest:
    return canonical_digest(
        {"layout": _LAYOUT, "kind": kind, **{name: str(value) for name, value in facts.items()}}
    )


class _LockedPackage(msgspec.Struct, frozen=True):
    version: str = ""


class _Lock(msgspec.Struct, frozen=True):
    packages: dict[str, _LockedPackage] = {}


def _list_resolved(lock: bytes) -> tuple[str, ...]:
    found = msgspec.json.decode(lock, type=_Lock).packages
    return tuple(
        f"{path.rpartition('node_modules/')[2]}@{package.version}"
        for path, package in sorted(found.items())
        if path
    )


def _execute_scripts(tree: Path, node: HostTool, *, manifest: bytes, seconds: int) -> None:
    """`npm rebuild`, as the sandbox's user."""
    identity = find_identity()
    is_foreign = identity.uid != os.geteuid()
    (tree / "package.json").write_bytes(manifest)
    if is_foreign:
        _give(tree, identity.uid, identity.gid)
    roots = () if node.root is None else (node.root,)
    spec = SandboxSpec(
        workspace=tree,
        root=HostRoot(tool_roots=roots),
        variables={
            "PATH": f"{node.path.parent}:{SYSTEM_PATH}",
            "HOME": "/tmp",  # noqa: S108 - the sandbox's own
            "LC_ALL": "C.UTF-8",
            "npm_config_update_notifier": "false",
            "npm_config_cache": "/tmp/npm",  # noqa: S108 - the sandbox's own
        },
        limits=ResourceLimits(memory_mb=_MEMORY_MB),
    )
    argv = (str(node.path.resolve()), str(find_npm(node)), "rebuild", "--foreground-scripts")
    with open_sandbox(spec, level=Level.L3) as sandbox:
        result = sandbox.run(CommandSpec(argv=argv, cwd=WORKSPACE, timeout_seconds=seconds))
    if result.exit != Exited(code=0) or result.cause != "ended":
        raise INSTALL_SCRIPT.error(
            f"npm rebuild: expected exit code 0, found {describe_end(result)}\n{render_tail(result)}"
        )
    if is_foreign:
        _give(tree, os.geteuid(), os.getegid())
    (tree / "package.json").unlink()


def _give(tree: Path, uid: int, gid: int) -> None:
    """Hand a tree to an account; links are handed over, never followed."""
    os.chown(tree, uid, gid, follow_symlinks=False)
    for _, directories, files, handle in os.fwalk(tree, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)
