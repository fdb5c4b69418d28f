"""What two runs must have in common to be compared (P30): repository, task and run configuration.

The agent is outside of it, and so is what only an agent that asks a model has: who answers, and how
privileges move where calls of tools can be seen. Thresholds and prices count where they are not the ones of
the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import canonical_bytes
from repotrial._core.display import neutralize

_MAX_CHARACTERS: Final = 300
_ABSENT: Final = "(absent)"

_COMPARED: Final = (
    "configuration",
    "contract",
    "cpu_class",
    "dependencies",
    "environment",
    "harness",
    "locale",
    "memory_class",
    "package_managers",
    "repository",
    "time_zone",
    "toolchain",
    "variables",
)
_COMPARED_SINCE_2: Final = ("configuration_files", "workspace")


class ManifestDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something in which two runs differ that must agree, or that is not known of one of them."""

    field: str
    """Its path in the manifest."""
    one: str
    """What the first run has there."""
    other: str
    """What the second run has there."""


def build_compared(facts: msgspec.Struct, *, schema: str) -> dict[str, Any]:
    """The part of a manifest that is compared, by the rules of a version."""
    found = {name: msgspec.to_builtins(getattr(facts, name)) for name in _COMPARED}
    if schema == "repotrial/manifest@1":
        return found
    found |= {name: msgspec.to_builtins(getattr(facts, name)) for name in _COMPARED_SINCE_2}
    configuration = found["configuration"]
    configuration.pop("stages")  # the contract's policy, carried out as the agent allows
    configuration["models"] = _find_own_policy(configuration["models"] or {})
    found["dependencies"].pop("mirrors")  # only a run that fills the cache asks them
    return found


def _find_own_policy(models: dict[str, Any]) -> dict[str, Any]:
    return {
        field: models[field]
        for field, source in (("thresholds", "thresholds_source"), ("price_method", "prices_source"))
        if models.get(source) == "own"
    }


def iter_unknown(value: Any, where: str) -> Iterator[tuple[str, Unknown]]:
    """Everything below a value that could not be found out, with its place."""
    match value:
        case Unknown():
            yield where, value
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from iter_unknown(getattr(value, name), f"{where}.{name}" if where else name)
        case dict():
            for key, item in value.items():
                yield from iter_unknown(item, f"{where}.{key}")
        case _:
            return


def iter_differences(one: Any, other: Any, where: str) -> Iterator[ManifestDifference]:
    """Where two compared parts are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            place = f"{where}.{key}" if where else key
            yield from iter_differences(one.get(key, _ABSENT), other.get(key, _ABSENT), place)
    elif one != other:
        yield ManifestDifference(field=where, one=_show(one), other=_show(other))


def build_unknown_difference(field: str, unknown: Unknown) -> ManifestDifference:
    """What is unknown is not equal to anything."""
    text = _show(f"unknown: {unknown.reason}")
    return ManifestDifference(field=field, one=text, other=text)


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    return neutralize(text, max_characters=_MAX_CHARACTERS)
