"""Run by the installer's own interpreter: prints what installed distributions ask for and do not have.

`pip check` would start the interpreter of the tree, which runs `.pth` files, and it passes over extras.
Metadata is only read here: the tree is never on the module path. Works with every Python from 3.8 on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name


def _is_wanted(requirement: Requirement, extras: frozenset[str], values: Mapping[str, str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**values, "extra": extra}) for extra in ("", *extras))


def _spell_extras(distribution: Distribution, wanted: set[str]) -> frozenset[str]:
    """Extras as the distribution's markers write them: older releases of `packaging` compare letters."""
    names = {canonicalize_name(extra) for extra in wanted}
    provided = distribution.metadata.get_all("Provides-Extra") or []
    return frozenset(extra for extra in provided if canonicalize_name(extra) in names)


def main(packages: str, lock: str, environment: str = "{}") -> None:
    """Print one line for each requirement that is not met.

    Args:
        packages: The directory of installed distributions.
        lock: What was to be installed, one requirement with its hashes on a line.
        environment: What markers are evaluated with where it is not this interpreter, as a JSON object.
    """
    values = json.loads(environment)
    installed = {canonicalize_name(found.metadata["Name"]): found for found in distributions(path=[packages])}
    lines = [line.partition(" --hash=")[0] for line in Path(lock).read_text(encoding="utf-8").splitlines()]
    # Who asks, for what, with which extras of its own.
    needs: list[tuple[str, str, frozenset[str]]] = [("the lock", line, frozenset()) for line in lines]
    done = set()
    for owner, text, extras in needs:
        requirement = Requirement(text)
        if not _is_wanted(requirement, extras, values):
            continue
        words = text.partition(";")[0].strip()
        found = installed.get(canonicalize_name(requirement.name))
        if found is None:
            print(f"{words} (for {owner})")  # noqa: T201 - its answer
            continue
        if not requirement.specifier.contains(found.version, prereleases=True):
            print(f"{words} (for {owner}) but {found.version}")  # noqa: T201 - its answer
        known = _spell_extras(found, requirement.extras)
        if (requirement.name, known) not in done:
            done.add((requirement.name, known))
            needs += [(f"{requirement.name} {found.version}", line, known) for line in found.requires or ()]


if __name__ == "__main__":
    main(*sys.argv[1:])
