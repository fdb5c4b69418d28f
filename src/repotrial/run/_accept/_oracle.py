"""Oracle files: which ones a check lays over the candidate's tree, and where (C6).

They are shown to the sandbox as read-only mounts, one for each file: code of the candidate that runs beside
its judge can neither change nor remove them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from repotrial.contract import Check, LoadedContract, Overlay
from repotrial.environment import ScratchPlace, read_pinned
from repotrial.isolation import WORKSPACE, Bind
from repotrial.judging import SuiteFile


def list_oracle_files(loaded: LoadedContract, overlays: Iterable[Overlay]) -> tuple[SuiteFile, ...]:
    """Every file that overlays lay down, later ones in place of earlier ones.

    Raises:
        CONTRACT_CHANGED: a file is no longer the one that the contract was loaded with.
    """
    executables = {pin.path for pin in loaded.files if pin.is_executable}
    return tuple(
        SuiteFile(target=target, content=read_pinned(loaded, path), is_executable=path in executables)
        for target, path in sorted(_find_paths(loaded, overlays).items())
    )


def _find_paths(loaded: LoadedContract, overlays: Iterable[Overlay]) -> dict[str, str]:
    """By target: the pinned file that goes there."""
    found: dict[str, str] = {}
    for overlay in overlays:
        source = PurePosixPath(overlay.source)
        for pin in loaded.files:
            path = PurePosixPath(pin.path)
            if path == source or source in path.parents:
                inside = path.relative_to(source)
                found[(PurePosixPath(overlay.target) / inside).as_posix()] = pin.path
    return found


def list_targets(loaded: LoadedContract, check: Check) -> tuple[str, ...]:
    """Where any oracle file of a check goes, in whatever variant."""
    return tuple(sorted(_find_paths(loaded, (*check.files, *check.negative))))


def find_collisions(changed: Iterable[str], targets: Iterable[str]) -> tuple[str, ...]:
    """Changed paths that stand where an oracle file goes, on the way to it, or below it."""
    wanted = set(targets)
    ways = {parent.as_posix() for target in wanted for parent in PurePosixPath(target).parents}
    return tuple(
        sorted(
            path
            for path in changed
            if path in wanted
            or path in ways
            or any(parent.as_posix() in wanted for parent in PurePosixPath(path).parents)
        )
    )


def place_files(files: Iterable[SuiteFile], scratch: ScratchPlace) -> tuple[Bind, ...]:
    """The files as read-only mounts in the workspace."""
    return tuple(
        Bind(
            source=scratch.write(file.target, file.content, is_executable=file.is_executable),
            target=f"{WORKSPACE}/{file.target}",
        )
        for file in files
    )
