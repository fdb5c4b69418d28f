"""Where programs come from: the host's tools or an image, and packages from lock files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_file
from repotrial.contract import Contract, LoadedContract
from repotrial.environment._coverage import observe_environment
from repotrial.environment._host import HostToolchain, observe_host, verify_host
from repotrial.environment._images._open import UnpackedImage, open_image
from repotrial.environment._installation._image_packages import ProgramSources, open_image_packages
from repotrial.environment._installation._place import ScratchPlace
from repotrial.environment._node_env import NodePackages, open_node_environment
from repotrial.environment._packages import IndexSettings
from repotrial.environment._python_env import PYTHON_TARGET, PythonPackages, open_python_environment
from repotrial.environment._store import Store, StoreEntry
from repotrial.environment._tools import SYSTEM_PATH
from repotrial.environment._versions import PACKAGE_MANAGERS, ask_npm, ask_pip
from repotrial.isolation import WORKSPACE, Bind, DirectoryRoot, HostRoot, Root
from repotrial.trace import HostEnvironment, ImageEnvironment, Lockfile

_LINKS: Final = "/opt/repotrial/links"


class InstalledPrograms(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be executed."""

    root: Root
    binds: tuple[Bind, ...]
    variables: Mapping[str, str]
    """The search path, and what an image says."""
    environment: HostEnvironment | ImageEnvironment | Unknown
    """Which ones, to the byte."""
    toolchain: HostToolchain | None
    image: UnpackedImage | None
    python: PythonPackages | None
    node: NodePackages | None


def hold_entry(store: Store, entry: StoreEntry, stack: ExitStack) -> None:
    """Keep what was found in the store from being pruned."""
    stack.enter_context(store.hold(entry.record.kind, entry.record.key))


def open_programs(
    loaded: LoadedContract, *, sources: ProgramSources, place: ScratchPlace, stack: ExitStack
) -> InstalledPrograms:
    """Find or make all of it.

    Args:
        loaded: The contract.
        sources: Where to look.
        place: For small files.
        stack: Holds what is in use.

    Raises:
        HOST_TOOLS_UNMET: tools are missing.
        IMAGE_NOT_STORED: the image is not on this machine.
        IMAGE_PACKAGES: packages are wanted inside an image that has no interpreter for them.
    """
    if loaded.contract.environment.image == "host":
        return _open_host(loaded, sources=sources, place=place, stack=stack)
    return _open_image(loaded, sources=sources, place=place, stack=stack)


def _open_image(
    loaded: LoadedContract, *, sources: ProgramSources, place: ScratchPlace, stack: ExitStack
) -> InstalledPrograms:
    environment = loaded.contract.environment
    assert environment.image != "host"
    image = open_image(environment.image, base=loaded.directory, store=sources.store)
    hold_entry(sources.store, image.entry, stack)
    variables = {"PATH": SYSTEM_PATH, **image.config.variables}
    python = node = None
    directories: list[str] = []
    binds: list[Bind] = []
    if environment.python is not None or environment.node is not None:
        packages = open_image_packages(loaded, image, sources=sources, place=place)
        python, node = packages.python, packages.node
    if python is not None:
        hold_entry(sources.store, python.entry, stack)
        binds.append(python.bind)
        directories.append(f"{PYTHON_TARGET}/bin")
    if node is not None:
        hold_entry(sources.store, node.entry, stack)
        binds += node.build_binds()
        directories.append(f"{WORKSPACE}/node_modules/.bin")
    return InstalledPrograms(
        root=DirectoryRoot(path=image.rootfs),
        binds=tuple(binds),
        variables={**variables, "PATH": ":".join([*directories, variables["PATH"]])},
        environment=ImageEnvironment(reference=_name_image(environment.image), image_digest=image.digest),
        toolchain=None,
        image=image,
        python=python,
        node=node,
    )


def _name_image(image: object) -> str:
    return getattr(image, "reference", None) or getattr(image, "path", None) or str(image)


def _open_host(
    loaded: LoadedContract, *, sources: ProgramSources, place: ScratchPlace, stack: ExitStack
) -> InstalledPrograms:
    environment = loaded.contract.environment
    store, settings = sources.store, sources.index
    toolchain = observe_host(environment, search_path=sources.search_path, home=sources.home)
    verify_host(toolchain)
    python, node = None, None
    binds: list[Bind] = []
    directories: list[str] = []
    if environment.python is not None:
        interpreter = toolchain.tools["python"]
        python = open_python_environment(
            environment.python,
            base=loaded.directory,
            interpreter=interpreter,
            store=store,
            settings=settings,
        )
        hold_entry(store, python.entry, stack)
        binds.append(python.bind)
        directories.append(f"{PYTHON_TARGET}/bin")
    if environment.node is not None:
        node = open_node_environment(
            environment.node,
            base=loaded.directory,
            node=toolchain.tools["node"],
            store=store,
            settings=settings,
        )
        hold_entry(store, node.entry, stack)
        binds += node.build_binds()
        directories.append(f"{WORKSPACE}/node_modules/.bin")
    if toolchain.links:
        binds.append(_make_links(toolchain.links, place))
        directories.append(_LINKS)
    return InstalledPrograms(
        root=HostRoot(tool_roots=toolchain.tool_roots),
        binds=tuple(binds),
        variables={"PATH": ":".join([*directories, toolchain.search_path])},
        environment=observe_environment(toolchain, memory=sources.memory),
        toolchain=toolchain,
        image=None,
        python=python,
        node=node,
    )


def _make_links(links: Mapping[str, Path], place: ScratchPlace) -> Bind:
    """A directory with the names that commands use and `PATH` does not lead to."""
    home = place.path / "links"
    home.mkdir()
    home.chmod(0o755)
    for name, target in links.items():
        (home / name).symlink_to(target)
    return Bind(source=home, target=_LINKS)


class InstallationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on this machine, and what was built from."""

    environment: HostEnvironment | ImageEnvironment | Unknown
    """Where programs come from."""
    toolchain: dict[str, str | Unknown]
    """Observed versions by name."""
    package_managers: dict[str, str | Unknown]
    """Observed versions by name."""
    lockfiles: tuple[Lockfile, ...] | Unknown
    """What fixed the packages: of the contract, and of the tree."""
    mirrors: tuple[str, ...]
    """Indexes that were asked, without credentials; empty where everything was there already."""
    notes: tuple[str, ...] = ()
    """Where this machine does something in another way than the contract names first."""


def build_facts(
    loaded: LoadedContract, programs: InstalledPrograms, settings: IndexSettings
) -> InstallationFacts:
    """Gather what was seen."""
    versions = {} if programs.toolchain is None else dict(programs.toolchain.versions)
    managers = {name: version for name, version in versions.items() if name in PACKAGE_MANAGERS}
    tools = {} if programs.toolchain is None else programs.toolchain.tools
    if programs.python is not None and programs.image is None:
        managers.setdefault("pip", ask_pip(tools["python"]))
    if programs.node is not None and programs.image is None:
        managers.setdefault("npm", ask_npm(tools["node"]))
    return InstallationFacts(
        environment=programs.environment,
        toolchain={name: version for name, version in versions.items() if name not in PACKAGE_MANAGERS},
        package_managers=managers,
        lockfiles=tuple(_iter_lockfiles(loaded)),
        mirrors=tuple(dict.fromkeys(_iter_mirrors(programs, settings))),
        notes=tuple(_iter_notes(loaded.contract)),
    )


def _iter_lockfiles(loaded: LoadedContract) -> Iterator[Lockfile]:
    environment = loaded.contract.environment
    for packages in (environment.python, environment.node):
        if packages is not None:
            digest = digest_file(loaded.directory / packages.lock)
            yield Lockfile(path=packages.lock, digest=digest, origin="contract")


def _iter_mirrors(programs: InstalledPrograms, settings: IndexSettings) -> Iterator[str]:
    for packages, variables in ((programs.python, settings.pip), (programs.node, settings.npm)):
        if packages is None or not packages.entry.is_new:
            continue
        found = [_strip_credentials(word) for value in variables.values() for word in value.split()]
        hosts = [host for host in found if host is not None]
        yield from hosts or [f"the default index ({packages.entry.record.kind.value})"]


def _strip_credentials(address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or parts.hostname is None:
        return None
    host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    return f"{parts.scheme}://{host}{parts.path}"


def _iter_notes(contract: Contract) -> Iterator[str]:
    for service in contract.environment.services:
        if service.image not in {None, contract.environment.image}:
            yield f"the service {service.id} runs in the environment's own image"
