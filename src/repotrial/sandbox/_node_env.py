"""`environment.node`: a lock with hashes becomes a read-only `node_modules`, once, offline ever after.

Install scripts never run here, since they would run with the harness's rights: a contract that needs them
runs `npm rebuild` as a setup step, in the sandbox.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes, digest_file
from repotrial._core.errors import ContractError
from repotrial.contract import NodeEnvironment
from repotrial.sandbox._host import HostTool
from repotrial.sandbox._model import WORKSPACE, Bind
from repotrial.sandbox._packages import (
    IndexSettings,
    PackageBuilderMissingError,
    PackageHashMismatchError,
    PackageHashMissingError,
    PackageIndexError,
    PackageLockError,
    PackagePlatformError,
    Symptom,
    verify_built,
)
from repotrial.sandbox._process import execute_program
from repotrial.sandbox._store import Facts, Kind, Store, StoreEntry
from repotrial.sandbox._tools import SYSTEM_PATH
from repotrial.sandbox._tree import remove_tree

__all__ = ["NodePackages", "NodeScriptsError", "open_node_environment"]

_LAYOUT = "repotrial/node-tree@1"
"""Part of every key: changes when the same lock would be built into another tree."""

_OPTIONS = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--include=dev",
    "--include=optional",
    "--include=peer",
    "--install-strategy=hoisted",
    "--install-links=false",
)

_SYMPTOMS = (
    Symptom(pattern=r"\bEINTEGRITY\b", error=PackageHashMismatchError),
    Symptom(pattern=r"\bEBADPLATFORM\b|\bEBADENGINE\b.*notsup", error=PackagePlatformError),
    Symptom(
        pattern=r"\b(?:ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|ERR_SOCKET_TIMEOUT"
        r"|UNABLE_TO_GET_ISSUER_CERT\w*|SELF_SIGNED_CERT\w*)\b",
        error=PackageIndexError,
    ),
    Symptom(pattern=r"\bEUSAGE\b|can only install packages when your package\.json", error=PackageLockError),
)


class NodeScriptsError(ContractError):
    """A contract asks for install scripts of packages, which run in the sandbox only."""

    code = "node-scripts"
    default_hint = 'leave `scripts` at "ignore" and add a setup step: `npm rebuild`'


class _Package(msgspec.Struct, frozen=True, rename="camel"):
    version: str = ""
    resolved: str | bool = ""
    integrity: str = ""
    link: bool = False
    in_bundle: bool = False


class _Lock(msgspec.Struct, frozen=True, rename="camel"):
    lockfile_version: Annotated[int, msgspec.Meta(ge=2, le=3)]
    packages: dict[str, _Package]


_INTEGRITY = re.compile(r"(?:(?:^|\s)sha(?:256|384|512)-[A-Za-z0-9+/]+=*)+")


class NodePackages(msgspec.Struct, frozen=True, kw_only=True):
    """Built `node_modules`: one at the top, and one for each workspace that needs its own."""

    path: Path
    tree_digest: Digest
    entry: StoreEntry

    def build_binds(self, workspace: str = WORKSPACE) -> tuple[Bind, ...]:
        """How a sandbox shows them."""
        found = sorted(path for path in self.path.rglob("node_modules") if self._is_outermost(path))
        return tuple(
            Bind(source=path, target=str(PurePosixPath(workspace) / path.relative_to(self.path)))
            for path in found
        )

    def _is_outermost(self, path: Path) -> bool:
        return "node_modules" not in path.relative_to(self.path).parts[:-1]


def open_node_environment(
    environment: NodeEnvironment,
    *,
    base: Path,
    node: HostTool,
    store: Store,
    settings: IndexSettings,
    seconds: int = 1800,
) -> NodePackages:
    """Find the packages of a lock in the store, or install them there.

    Args:
        environment: As the contract names it.
        base: The contract's directory.
        node: The Node.js of the sandbox, as `observe_host` found it.
        store: Where environments are kept.
        settings: The machine's way to its package registry.
        seconds: Time limit of the installation.

    Raises:
        NodeScriptsError: the contract asks for install scripts.
        PackageLockError: the lock is not one, or does not fit its manifest.
        PackageHashMissingError: a package in it has no integrity hash.
        PackageHashMismatchError: the registry served something else.
        PackageIndexError: no registry could be reached.
        PackagePlatformError: a package is not for this machine.
        PackageBuilderMissingError: there is no npm.
        PackageBuildError: the installation failed for another reason.
        StoreTamperedError: the environment in the store was changed.
    """
    if environment.scripts == "run":
        raise NodeScriptsError('environment.node.scripts: expected "ignore", found "run"')
    files = _read_files(environment, base)
    _verify_lock(files["package-lock.json"], environment, set(files))
    npm = _find_npm(node)
    facts: Facts = {
        "lock_digest": digest_bytes(files["package-lock.json"]),
        "manifests": tuple(f"{name} {digest_bytes(data)}" for name, data in sorted(files.items())),
        "node": f"{node.version} {node.binary_digest}",
        "npm_digest": digest_file(npm.parent.parent / "package.json"),
    }
    key = canonical_digest({"layout": _LAYOUT, **{name: str(value) for name, value in facts.items()}})

    def build(tree: Path, held: int) -> Facts:
        _install(tree, files, [str(node.path.resolve()), str(npm)], settings, seconds=seconds, held=held)
        return {**facts, "machine_settings": tuple(sorted({*settings.npm, *settings.transport}))}

    entry = store.make(Kind.NODE, key, build)
    return NodePackages(path=entry.path, tree_digest=entry.record.tree_digest, entry=entry)


def _read_files(environment: NodeEnvironment, base: Path) -> dict[str, bytes]:
    """The files that npm needs, by their place in the repository."""
    top = PurePosixPath(environment.manifest).parent
    files = {"package-lock.json": environment.lock, "package.json": environment.manifest}
    for workspace in environment.workspaces:
        path = PurePosixPath(workspace)
        if not path.is_relative_to(top) or path.name != "package.json":
            raise PackageLockError(
                f"environment.node.workspaces: expected package.json files below {top}, found {workspace}"
            )
        files[str(path.relative_to(top))] = workspace
    try:
        return {name: (base / path).read_bytes() for name, path in files.items()}
    except OSError as error:
        raise PackageLockError(f"{error.filename}: expected a file, found: {error.strerror}") from error


def _verify_lock(data: bytes, environment: NodeEnvironment, files: set[str]) -> None:
    try:
        lock = msgspec.json.decode(data, type=_Lock)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PackageLockError(f"{environment.lock}: expected a package-lock.json, found: {error}") from error
    foreign = [name for name, package in lock.packages.items() if _is_foreign(name, package, files)]
    bare = [
        name
        for name, package in lock.packages.items()
        if "node_modules/" in name
        and not (package.link or package.in_bundle or _INTEGRITY.fullmatch(package.integrity))
    ]
    if foreign:
        raise PackageLockError(
            f"{environment.lock}: expected packages of a registry and workspaces of the contract, "
            f"found {', '.join(foreign)[:500]}"
        )
    if bare:
        raise PackageHashMissingError(
            f"{environment.lock}: expected an integrity hash (SHA-2) for every package, "
            f"found none for {', '.join(bare)[:500]}"
        )


def _is_foreign(name: str, package: _Package, files: set[str]) -> bool:
    """Whether a package comes from anywhere but a registry or a workspace that the contract names."""
    if package.link:
        return f"{package.resolved}/package.json" not in files
    if "node_modules/" not in name:
        return bool(name) and f"{name}/package.json" not in files
    return bool(package.resolved) and not str(package.resolved).startswith(("https://", "http://"))


def _find_npm(node: HostTool) -> Path:
    """The npm that came with a Node.js, as the script that it is."""
    found = [directory / "npm" for directory in (node.path.parent, *map(Path, SYSTEM_PATH.split(":")))]
    for path in found:
        script = path.resolve()
        if script.is_file() and (script.parent.parent / "package.json").is_file():
            return script
    raise PackageBuilderMissingError(f"expected npm beside {node.path}, found none")


def _install(
    tree: Path, files: dict[str, bytes], npm: list[str], settings: IndexSettings, *, seconds: int, held: int
) -> None:
    scratch = tree.parent / "scratch"
    scratch.mkdir()
    for name, data in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    npmrc = scratch / "npmrc"
    npmrc.write_text("".join(f"{key}={value}\n" for key, value in settings.npm.items()), encoding="utf-8")
    finished = execute_program(
        [*npm, "ci", *_OPTIONS],
        variables={
            **settings.transport,
            "npm_config_userconfig": str(npmrc),
            "npm_config_globalconfig": str(scratch / "no-npmrc"),
            "npm_config_cache": str(scratch / "cache"),
            "npm_config_prefix": str(scratch / "prefix"),
            "PATH": SYSTEM_PATH,
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
        },
        seconds=seconds,
        cwd=tree,
        held_fds=(held,),
    )
    verify_built(finished, "npm", _SYMPTOMS)
    remove_tree(scratch)
    for name in files:
        (tree / name).unlink()
    # npm's own note of what it did: a cache that names the registry of this machine.
    for note in tree.rglob("node_modules/.package-lock.json"):
        note.unlink()
    (tree / "node_modules").mkdir(exist_ok=True)
