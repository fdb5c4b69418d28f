"""Rules that need to know which files there are: what lies over what, and who may see it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import PurePosixPath

from repotrial.contract._contract import FilePin
from repotrial.contract._draft import Draft
from repotrial.contract._files import normalize
from repotrial.contract._oracle import Check, Overlay
from repotrial.contract._problems import Finding, Place, quote


def pins_below(path: str, pins: Sequence[FilePin]) -> list[FilePin]:
    """The pins of one file, or of all files below one directory; `pins` are sorted by path."""
    name = normalize(path)
    by_path = attrgetter("path")
    exact = bisect_left(pins, name, key=by_path)
    first, last = (bisect_left(pins, f"{name}{end}", key=by_path) for end in ("/", "0"))  # "0" follows "/"
    return [*(pin for pin in pins[exact : exact + 1] if pin.path == name), *pins[first:last]]


def iter_collisions(checks: Mapping[int, Check], pins: Sequence[FilePin]) -> Iterator[Finding]:
    """Files that two overlays of one check would lay on the same place."""
    for position, check in checks.items():
        for name, overlays in (("files", check.files), ("negative", check.negative)):
            yield from _iter_collisions(overlays, ("checks", position, name), pins)


def iter_shown_files(draft: Draft, shown: Mapping[str, str]) -> Iterator[Finding]:
    """Files for the agent, or for nobody, that lie among the oracle's files; `shown` maps fields to paths."""
    for position, check in draft.checks.items():
        for name, overlays in (("files", check.files), ("negative", check.negative)):
            for index, overlay in enumerate(overlays):
                place: Place = ("checks", position, name, index, "from")
                yield from _iter_shown(overlay, place, shown)
        if check.inventory is not None and normalize(check.inventory) in map(normalize, shown.values()):
            message = f"expected an inventory of its own, found {quote(check.inventory)}, which is shown"
            yield Finding(code="oracle-shared", place=("checks", position, "inventory"), message=message)


def _iter_shown(overlay: Overlay, place: Place, shown: Mapping[str, str]) -> Iterator[Finding]:
    for field, path in shown.items():
        if PurePosixPath(path).is_relative_to(PurePosixPath(overlay.source)):
            yield Finding(
                code="oracle-shared",
                place=place,
                message=f"expected oracle files only, found {quote(path)}, which is the {field}",
                hint=f"move the {field} out of {quote(normalize(overlay.source))}",
            )


def _iter_collisions(
    overlays: tuple[Overlay, ...], place: Place, pins: Sequence[FilePin]
) -> Iterator[Finding]:
    owner: dict[PurePosixPath, int] = {}
    for index, overlay in enumerate(overlays):
        source, target = PurePosixPath(overlay.source), PurePosixPath(overlay.target)
        for pin in pins_below(overlay.source, pins):
            laid = target / PurePosixPath(pin.path).relative_to(source)
            other = next((path for path in (laid, *laid.parents) if path in owner), None)
            if other is not None and owner[other] != index:
                yield Finding(
                    code="overlay-collision",
                    place=(*place, index, "to"),
                    message=f"expected each file to be laid once, found {quote(str(laid))}, "
                    f"which {place[-1]}[{owner[other]}] lays as well",
                )
                break
            owner[laid] = index
