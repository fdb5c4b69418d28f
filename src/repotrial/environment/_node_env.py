"""`environment.node`: a lock with hashes becomes a read-only `node_modules`, once, offline ever after.

Install scripts never run here, since they would run with the harness's rights: a contract that needs them
runs `npm rebuild` as a setup step, in the sandbox.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes, digest_file
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.remove_tree import remove_tree
from repotrial.contract import Environment, NodeEnvironment
from repotrial.environment._host import HostTool, observe_host
from repotrial.environment._packages import (
    PACKAGE_BUILDER_MISSING,
    PACKAGE_HASH_MISMATCH,
    PACKAGE_HASH_MISSING,
    PACKAGE_INDEX_UNREACHABLE,
    PACKAGE_LOCK_INVALID,
    PACKAGE_PLATFORM,
    PACKAGE_VERSION_MISSING,
    IndexSettings,
    Symptom,
    load_index_settings,
    verify_built,
)
from repotrial.environment._process import FinishedProgram, execute_program
from repotrial.environment._store import Facts, Store, StoreEntry, StoreKind
from repotrial.environment._tools import SYSTEM_PATH
from repotrial.isolation import WORKSPACE, Bind

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
    Symptom(pattern=r"\bEINTEGRITY\b", error=PACKAGE_HASH_MISMATCH),
    Symptom(pattern=r"\bEBADPLATFORM\b|\bEBADENGINE\b.*notsup", error=PACKAGE_PLATFORM),
    Symptom(
        pattern=r"\b(?:ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|ERR_SOCKET_TIMEOUT"
        r"|UNABLE_TO_GET_ISSUER_CERT\w*|SELF_SIGNED_CERT\w*)\b",
        error=PACKAGE_INDEX_UNREACHABLE,
    ),
    Symptom(pattern=r"\bETARGET\b|\bE404\b|No matching version found", error=PACKAGE_VERSION_MISSING),
    Symptom(
        pattern=r"\bEUSAGE\b|can only install packages when your package\.json", error=PACKAGE_LOCK_INVALID
    ),
)


NODE_SCRIPTS = ErrorCode(
    "node-scripts",
    ContractError,
    "A contract asks for install scripts of packages, which run in the sandbox only.",
    hint='leave `scripts` at "ignore" and add a setup step: `npm rebuild`',
)


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
        NODE_SCRIPTS: the contract asks for install scripts.
        PACKAGE_LOCK_INVALID: the lock is not one, or does not fit its manifest.
        PACKAGE_HASH_MISSING: a package in it has no integrity hash.
        PACKAGE_HASH_MISMATCH: the registry served something else.
        PACKAGE_INDEX_UNREACHABLE: no registry could be reached.
        PACKAGE_PLATFORM: a package is not for this machine.
        PACKAGE_BUILDER_MISSING: there is no npm.
        PACKAGE_BUILD_FAILED: the installation failed for another reason.
        STORE_TAMPERED: the environment in the store was changed.
    """
    if environment.scripts == "run":
        raise NODE_SCRIPTS.error('environment.node.scripts: expected "ignore", found "run"')
    files = _read_files(environment, base)
    verify_node_lock(files["package-lock.json"], environment.lock, files=set(files))
    npm = find_npm(node)
    facts: Facts = {
        "lock_digest": digest_bytes(files["package-lock.json"]),
        "manifests": tuple(f"{name} {digest_bytes(data)}" for name, data in sorted(files.items())),
        "node": f"{node.version} {node.binary_digest}",
        "npm_digest": digest_file(npm.parent.parent / "package.json"),
    }
    key = canonical_digest({"layout": _LAYOUT, **{name: str(value) for name, value in facts.items()}})

    def build(tree: Path, held: int) -> Facts:
        command = [str(node.path.resolve()), str(npm), "ci"]
        execute_npm(command, tree, files, settings, seconds=seconds, held=held)
        return {**facts, "machine_settings": tuple(sorted({*settings.npm, *settings.transport}))}

    entry = store.make(StoreKind.NODE, key, build)
    return NodePackages(path=entry.path, tree_digest=entry.record.tree_digest, entry=entry)


def _read_files(environment: NodeEnvironment, base: Path) -> dict[str, bytes]:
    """The files that npm needs, by their place in the repository."""
    top = PurePosixPath(environment.manifest).parent
    files = {"package-lock.json": environment.lock, "package.json": environment.manifest}
    for workspace in environment.workspaces:
        path = PurePosixPath(workspace)
        if not path.is_relative_to(top) or path.name != "package.json":
            raise PACKAGE_LOCK_INVALID.error(
                f"environment.node.workspaces: expected package.json files below {top}, found {workspace}"
            )
        files[str(path.relative_to(top))] = workspace
    try:
        return {name: (base / path).read_bytes() for name, path in files.items()}
    except OSError as error:
        raise PACKAGE_LOCK_INVALID.error(
            f"{error.filename}: expected a file, found: {error.strerror}"
        ) from error


def verify_node_lock(data: bytes, path: str, *, files: set[str]) -> None:
    """See that a lock leaves nothing open and asks for packages only.

    Args:
        data: A `package-lock.json`.
        path: Its name, for messages.
        files: Manifests of workspaces that it may name.

    Raises:
        PACKAGE_LOCK_INVALID: it is no lock, or asks for more.
        PACKAGE_HASH_MISSING: a package in it has no integrity hash.
    """
    try:
        lock = msgspec.json.decode(data, type=_Lock)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PACKAGE_LOCK_INVALID.error(f"{path}: expected a package-lock.json, found: {error}") from error
    foreign = [name for name, package in lock.packages.items() if _is_foreign(name, package, files)]
    bare = [
        name
        for name, package in lock.packages.items()
        if "node_modules/" in name
        and not (package.link or package.in_bundle or _INTEGRITY.fullmatch(package.integrity))
    ]
    if foreign:
        raise PACKAGE_LOCK_INVALID.error(
            f"{path}: expected packages of a registry and workspaces of the contract, "
            f"found {', '.join(foreign)[:500]}"
        )
    if bare:
        raise PACKAGE_HASH_MISSING.error(
            f"{path}: expected an integrity hash (SHA-2) for every package, "
            f"found none for {', '.join(bare)[:500]}"
        )


def _is_foreign(name: str, package: _Package, files: set[str]) -> bool:
    """Whether a package comes from anywhere but a registry or a workspace that the contract names."""
    if package.link:
        return f"{package.resolved}/package.json" not in files
    if "node_modules/" not in name:
        return bool(name) and f"{name}/package.json" not in files
    return bool(package.resolved) and not str(package.resolved).startswith(("https://", "http://"))


def find_npm(node: HostTool) -> Path:
    """The npm that came with a Node.js, as the script that it is.

    Raises:
        PACKAGE_BUILDER_MISSING: there is none.
    """
    found = [directory / "npm" for directory in (node.path.parent, *map(Path, SYSTEM_PATH.split(":")))]
    for path in found:
        script = path.resolve()
        if script.is_file() and (script.parent.parent / "package.json").is_file():
            return script
    raise PACKAGE_BUILDER_MISSING.error(f"expected npm beside {node.path}, found none")


def execute_npm(
    command: list[str],
    tree: Path,
    files: dict[str, bytes],
    settings: IndexSettings,
    *,
    seconds: int,
    held: int,
) -> bytes:
    """Let npm fill a tree from a manifest, and leave nothing but packages in it.

    Args:
        command: npm and its verb.
        tree: An empty directory.
        files: The manifest and the like, by their place in the tree.
        settings: The machine's way to its package registry.
        seconds: Time limit.
        held: The lock of the tree.

    Returns:
        The lock that was followed or made.

    Raises:
        RepoTrialError: it failed; the class says why.
    """
    scratch = tree.parent / "scratch"
    scratch.mkdir()
    for name, data in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    finished = execute_program(
        [*command, *_OPTIONS],
        variables=_build_variables(scratch, settings),
        seconds=seconds,
        cwd=tree,
        held_fds=(held,),
    )
    verify_built(_cut_usage(finished), "npm", _SYMPTOMS)
    remove_tree(scratch)
    lock = (tree / "package-lock.json").read_bytes()
    for name in {*files, "package-lock.json"}:
        (tree / name).unlink()
    # npm's own note of what it did: a cache that names the registry of this machine.
    for note in tree.rglob("node_modules/.package-lock.json"):
        note.unlink()
    (tree / "node_modules").mkdir(exist_ok=True)
    return lock


def lock_node_packages(
    files: Mapping[str, bytes],
    *,
    variables: Mapping[str, str],
    home: Path,
    cutoff: dt.date | None,
    seconds: int = 300,
) -> bytes:
    """Let npm make a lock as of a day. Nothing is installed, and no script of a package runs.

    Args:
        files: `package.json`, and `yarn.lock` where there is one: npm takes the versions that it names.
        variables: The operator's environment: where node is looked for, and settings of registries.
        home: The operator's home, for the same.
        cutoff: Packages that are newer do not count; None where the files name every version.
        seconds: Time limit.

    Raises:
        PACKAGE_BUILDER_MISSING: there is no node, or no npm.
        RepoTrialError: npm failed; the class says why.
    """
    toolchain = observe_host(
        Environment(image="host", tools={"node": ">=18"}), search_path=variables.get("PATH"), home=home
    )
    node = toolchain.tools.get("node")
    if node is None:
        raise PACKAGE_BUILDER_MISSING.error("expected node 18 or later on this machine, found none")
    command = [str(node.path.resolve()), str(find_npm(node)), "install", "--package-lock-only"]
    # Addresses of this machine's registry are no business of the lock.
    command += ["--omit-lockfile-registry-resolved"]
    if cutoff is not None:
        command += ["--before", cutoff.isoformat()]
    settings = load_index_settings(variables, home=home)
    with tempfile.TemporaryDirectory(prefix="repotrial-npm-") as place:
        tree = Path(place, "tree")
        tree.mkdir()
        held = os.open(tree, os.O_RDONLY)
        try:
            return execute_npm(command, tree, dict(files), settings, seconds=seconds, held=held)
        finally:
            os.close(held)


def _cut_usage(finished: FinishedProgram) -> FinishedProgram:
    """What npm says of a mistake, without the pages about its options that follow."""
    return msgspec.structs.replace(finished, stderr=finished.stderr.partition(b"npm error Usage:")[0])


def ask_registry(node: HostTool, package: str, settings: IndexSettings, *, seconds: int) -> None:
    """See that a registry answers and has a package in its exact version.

    Raises:
        PACKAGE_INDEX_UNREACHABLE: no registry could be reached.
        PACKAGE_VERSION_MISSING: it does not have it.
        PACKAGE_BUILDER_MISSING: there is no npm.
        PACKAGE_BUILD_FAILED: something else went wrong.
    """
    command = [str(node.path.resolve()), str(find_npm(node)), "view", package, "version"]
    with tempfile.TemporaryDirectory(prefix="repotrial-npm-") as scratch:
        finished = execute_program(
            [*command, "--fetch-retries=0", "--no-update-notifier"],
            variables=_build_variables(Path(scratch), settings),
            seconds=seconds,
            cwd=Path(scratch),
        )
    verify_built(finished, "npm", _SYMPTOMS)
    if not finished.stdout.strip():
        raise PACKAGE_VERSION_MISSING.error(f"expected {package} in the registry, found no such version")


def _build_variables(scratch: Path, settings: IndexSettings) -> dict[str, str]:
    """All that npm sees of the machine."""
    npmrc = scratch / "npmrc"
    npmrc.write_text("".join(f"{key}={value}\n" for key, value in settings.npm.items()), encoding="utf-8")
    return {
        **settings.transport,
        "npm_config_userconfig": str(npmrc),
        "npm_config_globalconfig": str(scratch / "no-npmrc"),
        "npm_config_cache": str(scratch / "cache"),
        "npm_config_prefix": str(scratch / "prefix"),
        "PATH": SYSTEM_PATH,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
    }
