"""What a manifest says about an environment (P2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_file
from repotrial.contract import Contract, LoadedContract
from repotrial.environment._installation._programs import Programs
from repotrial.environment._packages import IndexSettings
from repotrial.trace import HostEnvironment, ImageEnvironment, Lockfile

_PACKAGE_MANAGERS: Final = frozenset(
    {"bundler", "cargo", "composer", "go", "gradle", "maven", "mvn", "npm", "pip", "pnpm", "poetry", "uv"}
    | {"yarn"}
)


class InstallationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on this machine, and what was built from."""

    environment: HostEnvironment | ImageEnvironment
    """Where programs come from."""
    toolchain: dict[str, str | Unknown]
    """Observed versions by name."""
    package_managers: dict[str, str | Unknown]
    """Observed versions by name."""
    lockfiles: tuple[Lockfile, ...]
    """What fixed the packages."""
    mirrors: tuple[str, ...]
    """Indexes that were asked, without credentials; empty where everything was there already."""
    notes: tuple[str, ...] = ()
    """Where this machine does something in another way than the contract names first."""


def build_facts(loaded: LoadedContract, programs: Programs, settings: IndexSettings) -> InstallationFacts:
    """Gather what was seen."""
    versions = {} if programs.toolchain is None else dict(programs.toolchain.versions)
    managers = {name: version for name, version in versions.items() if name in _PACKAGE_MANAGERS}
    if programs.python is not None:
        managers.setdefault("pip", Unknown(reason="the one that came with the interpreter"))
    if programs.node is not None:
        managers.setdefault("npm", Unknown(reason="the one that came with Node.js"))
    return InstallationFacts(
        environment=_describe_environment(loaded.contract, programs),
        toolchain={name: version for name, version in versions.items() if name not in _PACKAGE_MANAGERS},
        package_managers=managers,
        lockfiles=tuple(_iter_lockfiles(loaded)),
        mirrors=tuple(dict.fromkeys(_iter_mirrors(programs, settings))),
        notes=tuple(_iter_notes(loaded.contract)),
    )


def _describe_environment(contract: Contract, programs: Programs) -> HostEnvironment | ImageEnvironment:
    if programs.toolchain is not None:
        return HostEnvironment(observed_id=programs.toolchain.observed_id)
    assert programs.image is not None
    image = contract.environment.image
    reference = getattr(image, "reference", None) or getattr(image, "path", None) or str(image)
    return ImageEnvironment(reference=reference, image_digest=programs.image.digest)


def _iter_lockfiles(loaded: LoadedContract) -> Iterator[Lockfile]:
    environment = loaded.contract.environment
    for packages in (environment.python, environment.node):
        if packages is not None:
            yield Lockfile(path=packages.lock, digest=digest_file(loaded.directory / packages.lock))


def _iter_mirrors(programs: Programs, settings: IndexSettings) -> Iterator[str]:
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
