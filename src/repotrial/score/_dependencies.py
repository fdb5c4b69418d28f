"""What a change newly depends on, as far as the change alone can say it.

The environment and the rest of the tree are not at hand here, so an import that nothing known provides is no
more than a candidate: it takes a check that could not find the name to make it a finding. A new requirement
in a manifest is one by itself.
"""

from __future__ import annotations

from repotrial.change import ChangeView
from repotrial.contract import DependencyPolicy
from repotrial.policy import KnownNames, NewDependency, find_new_dependencies

_NOTHING_KNOWN = KnownNames()


def normalize_name(name: str) -> str:
    """One spelling for the ways in which a module and its distribution are written."""
    top = name.partition("::")[0]
    top = top if top.startswith("@") or "/" in top else top.partition(".")[0]
    return top.lower().replace("_", "-")


def list_new_names(view: ChangeView, policy: DependencyPolicy) -> dict[str, str]:
    """By normalized name, the first file in which the change imports or requires it."""
    names: dict[str, str] = {}
    for each in find_new_dependencies(view, policy, _NOTHING_KNOWN):
        names.setdefault(normalize_name(each.name), each.path)
    return names


def list_requirements(view: ChangeView, policy: DependencyPolicy) -> tuple[NewDependency, ...]:
    """Requirements that the change adds to manifests."""
    found = find_new_dependencies(view, policy, _NOTHING_KNOWN)
    return tuple(each for each in found if each.source == "manifest")
