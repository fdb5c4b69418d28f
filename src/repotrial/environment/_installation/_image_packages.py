"""Packages from lock files for programs of an image: built by this machine's tools, for the image's."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from repotrial._core.words import Level
from repotrial.contract import Environment, LoadedContract, NodeEnvironment
from repotrial.environment._host import observe_host, verify_host
from repotrial.environment._image_python import IMAGE_PACKAGES, ask_image_python, open_image_python
from repotrial.environment._images._open import UnpackedImage
from repotrial.environment._installation._place import ScratchPlace
from repotrial.environment._node_env import NodePackages, open_node_environment
from repotrial.environment._packages import IndexSettings
from repotrial.environment._python_env import PYTHON_TARGET, PythonBuilder, PythonPackages
from repotrial.environment._store import Store
from repotrial.environment._tools import SYSTEM_PATH, meets
from repotrial.isolation import (
    Bind,
    CommandResult,
    CommandSpec,
    DirectoryRoot,
    Sandbox,
    SandboxSpec,
    find_identity,
    open_sandbox,
)
from repotrial.trace import Exited

_ASK_SECONDS = 60
_BUILD_SECONDS = 1800
_COMPILED = "/opt/repotrial/compiled"
_BUILDERS = {"python": ">=3.9", "node": ">=16"}
"""Of this machine, whatever the image has: they only choose and unpack."""


class ProgramSources(msgspec.Struct, frozen=True, kw_only=True):
    """Where programs are looked for."""

    store: Store
    """Where images and packages are kept."""
    index: IndexSettings
    """The machine's way to package indexes."""
    search_path: str
    """Of the operator, for tools of the host."""
    home: Path
    """Of the operator, whose tool directories count."""
    memory: Path
    """Where digests of the host's tools are remembered."""
    level: Level
    """Of sandboxes in which an image's own programs are asked."""


class ImagePackages(msgspec.Struct, frozen=True, kw_only=True):
    """What was built."""

    python: PythonPackages | None = None
    node: NodePackages | None = None


def open_image_packages(
    loaded: LoadedContract, image: UnpackedImage, *, sources: ProgramSources, place: ScratchPlace
) -> ImagePackages:
    """Find or build the packages that a contract wants in its image.

    Args:
        loaded: The contract.
        image: Where its programs come from.
        sources: Where tools and packages are looked for.
        place: For an empty workspace.

    Raises:
        IMAGE_PACKAGES: the image has no interpreter for them.
        HOST_TOOLS_UNMET: this machine has no tool that could build them.
        PACKAGE_LOCK_INVALID: a lock is not one; and the other errors of building packages.
    """
    environment = loaded.contract.environment
    wanted = {name: _BUILDERS[name] for name in _BUILDERS if getattr(environment, name) is not None}
    tools = observe_host(
        Environment(image="host", tools=wanted), search_path=sources.search_path, home=sources.home
    )
    verify_host(tools)
    workspace = place.path / "image-question"
    workspace.mkdir()
    workspace.chmod(0o755)
    spec = SandboxSpec(
        workspace=workspace,
        root=DirectoryRoot(path=image.rootfs),
        stage="read",
        variables={"PATH": SYSTEM_PATH, **image.config.variables},
    )

    def compile_tree(tree: Path, compiled: Path) -> None:
        _compile(msgspec.structs.replace(spec, stage="write"), tree, compiled, sources)

    asked = python = node = None
    with open_sandbox(spec, level=sources.level) as sandbox:
        if environment.python is not None:
            asked = ask_image_python(lambda argv: _ask(sandbox, argv), environment.python)
        if environment.node is not None:
            _verify_image_node(sandbox, environment.node)
    if environment.python is not None and asked is not None:
        python = open_image_python(
            environment.python,
            base=loaded.directory,
            python=asked,
            image_digest=image.digest,
            builder=PythonBuilder(
                tools.tools["python"], store=sources.store, settings=sources.index, seconds=_BUILD_SECONDS
            ),
            compile_tree=compile_tree,
        )
    if environment.node is not None:
        node = open_node_environment(
            environment.node,
            base=loaded.directory,
            node=tools.tools["node"],
            store=sources.store,
            settings=sources.index,
        )
    return ImagePackages(python=python, node=node)


def _compile(spec: SandboxSpec, tree: Path, compiled: Path, sources: ProgramSources) -> None:
    """Its status tells only that some file of a package is no valid Python, as test data often is."""
    owner = find_identity()
    os.chown(compiled, owner.uid, owner.gid)
    binds = (
        Bind(source=tree, target=PYTHON_TARGET),
        Bind(source=compiled, target=_COMPILED, is_writable=True),
    )
    command = CommandSpec(
        argv=(
            *("python3", "-I", "-S", "-X", f"pycache_prefix={_COMPILED}", "-m", "compileall", "-q"),
            *("--invalidation-mode", "unchecked-hash", f"{PYTHON_TARGET}/lib"),
        ),
        timeout_seconds=_BUILD_SECONDS,
    )
    with open_sandbox(msgspec.structs.replace(spec, binds=binds), level=sources.level) as sandbox:
        sandbox.run(command)


def _ask(sandbox: Sandbox, argv: tuple[str, ...]) -> CommandResult:
    return sandbox.run(CommandSpec(argv=argv, timeout_seconds=_ASK_SECONDS))


_LIBC = (
    "const found = process.report.getReport().header.glibcVersionRuntime || '';"
    "process.stdout.write(process.version + ' ' + found)"
)


def _verify_image_node(sandbox: Sandbox, wanted: NodeEnvironment) -> None:
    """Npm of this machine chooses packages for its own libc: the image's must be the same."""
    result = _ask(sandbox, ("node", "-e", _LIBC))
    if result.exit != Exited(code=0):
        raise IMAGE_PACKAGES.error("environment.node: expected a Node.js in the image, found none that runs")
    version, _, glibc = result.stdout.prefix.decode(errors="replace").strip().partition(" ")
    if wanted.version is not None and not meets(version.removeprefix("v"), wanted.version):
        raise IMAGE_PACKAGES.error(
            f"environment.node.version: expected {wanted.version}, found {version} in the image"
        )
    if not glibc:
        raise IMAGE_PACKAGES.error(
            "environment.node: expected an image with the GNU C library, found another one",
            hint="use a Debian-based image, or install the packages in the image itself",
        )
