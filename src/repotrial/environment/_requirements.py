"""Requirements files with hashes: packages by exact version and nothing else.

Which index serves a package is the machine's business and its hash makes the answer the same everywhere, so
options, addresses, paths and further files are refused rather than passed on to an installer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from repotrial._core.display import neutralize
from repotrial.environment._packages import PACKAGE_HASH_MISSING, PACKAGE_LOCK_INVALID

_SHOWN = 120
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"\s*(?P<extras>\[[A-Za-z0-9._, -]*\])?"
    r"\s*==\s*(?P<version>[0-9A-Za-z.!+_-]+)"
    r"\s*(?:;\s*(?P<marker>[^;#\\]+?))?",
    re.ASCII,
)
_HASHES = re.compile(r"\s--hash[= ]")
_HASH = re.compile(r"sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One locked package."""

    name: str
    extras: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def parse_requirements(data: bytes, name: str) -> tuple[Requirement, ...]:
    """Read a lock; every line that is not a pinned package is named.

    Raises:
        PACKAGE_LOCK_INVALID: a line is something else.
        PACKAGE_HASH_MISSING: a package has no hash.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PACKAGE_LOCK_INVALID.error(f"{name}: expected UTF-8 text, found: {error.reason}") from error
    requirements, wrong, bare = [], [], []
    for number, line in _iter_logical_lines(text):
        specification, *hashes = (part.strip() for part in _HASHES.split(line))
        match = _REQUIREMENT.fullmatch(specification)
        if match is None or not all(_HASH.fullmatch(item) for item in hashes):
            wrong.append(f"line {number}: {neutralize(line, max_characters=_SHOWN)}")
        elif not hashes:
            bare.append(f"line {number}: {match['name']}")
        else:
            requirements.append(
                Requirement(
                    name=match["name"],
                    extras=(match["extras"] or "").replace(" ", ""),
                    version=match["version"],
                    marker=match["marker"] or "",
                    hashes=tuple(sorted(set(hashes))),
                )
            )
    if wrong:
        raise PACKAGE_LOCK_INVALID.error(
            f"{name}: expected only lines such as `name==1.0 --hash=sha256:…`, found {'; '.join(wrong)}"
        )
    if bare:
        raise PACKAGE_HASH_MISSING.error(
            f"{name}: expected a hash for every package, found {'; '.join(bare)}"
        )
    return tuple(requirements)


def render_requirements(requirements: tuple[Requirement, ...]) -> str:
    """The same lock in one spelling, for the installer."""
    lines = []
    for item in requirements:
        marker = f" ; {item.marker}" if item.marker else ""
        hashes = "".join(f" --hash={value}" for value in item.hashes)
        lines.append(f"{item.name}{item.extras}=={item.version}{marker}{hashes}\n")
    return "".join(lines)


def _iter_logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones joined, with the number of the first."""
    pending, start = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw.rstrip("\r"))
        start = start if pending else number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        if joined := (pending + line).strip():
            yield start, joined
        pending = ""
    if joined := pending.strip():
        yield start, joined
