"""Tools of the host to the byte: each program with its shared libraries and its standard library (P2, C3).

Equal digests mean equal bytes, as far as `places` reach. Reading all of it takes a second, so what was read
is remembered together with the times, sizes and inodes of every file; as long as these are the same, so is
the digest. Compiled bytecode is left out: it is made from the sources on the way, with times in it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count, JsonValue, canonical_bytes, canonical_digest
from repotrial._core.digest import Digest, digest_file
from repotrial._core.errors import MachineError
from repotrial._core.files import write_atomic
from repotrial.environment._host import HostToolchain
from repotrial.environment._process import execute_program
from repotrial.environment._tools import SYSTEM_PATH, find_rule
from repotrial.trace import CoveredTool, HostEnvironment

_FORMAT: Final = "repotrial/host@2"
_SHELL: Final = "sh"
_LOADER_CACHE: Final = Path("/etc/ld.so.cache")
"""Decides which library a name leads to."""
_LIBRARY: Final = re.compile(rb"(?:^|=>)\s*(/[^\s]+)\s+\(0x", re.MULTILINE)
_SHARED: Final = ("/", "/usr", "/usr/local", "/opt")
"""Prefixes that hold more than one tool."""
_SECONDS: Final = 60
_MOST_FILES: Final = 200_000
_MOST_LIBRARIES: Final = 1000
_ELF: Final = b"\x7fELF"
_VARIABLES: Final = {"PATH": SYSTEM_PATH, "LC_ALL": "C", "HOME": "/nonexistent"}


class _Remembered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was read of one tool, and what the file system said about it then."""

    fingerprint: Digest
    places: tuple[str, ...]
    digest: Digest
    files: Count


class _CoverageError(Exception):
    """A tool cannot be read whole; never leaves this module."""


def observe_environment(toolchain: HostToolchain, *, memory: Path) -> HostEnvironment | Unknown:
    """The declared tools and the shell that starts commands, with an id over their bytes.

    Args:
        toolchain: The tools as they were found.
        memory: The directory where digests are remembered.
    """
    programs = {name: (tool.path, tool.root) for name, tool in toolchain.tools.items()}
    programs.setdefault(_SHELL, (Path("/bin/sh"), None))
    covered, unread = [], []
    for name, (path, root) in sorted(programs.items()):
        try:
            covered.append(_cover(name, path, root, memory))
        except (_CoverageError, OSError, MachineError) as error:
            unread.append(f"{name}: expected to read all of it, found: {error}")
    if unread:
        return Unknown(reason="; ".join(unread))
    return HostEnvironment(observed_id=_build_id(covered), pins="constraints", covers=tuple(covered))


def _build_id(covered: Iterable[CoveredTool]) -> Digest:
    """Equal on two machines whose tools, system release, kernel generation and processor are the same."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    system = os.uname()
    facts: JsonValue = {
        "format": _FORMAT,
        "tools": [[tool.name, tool.digest] for tool in covered],
        "os": [release.get("ID", ""), release.get("VERSION_ID", "")],
        "kernel": [system.sysname, system.release.partition(".")[0]],
        "machine": system.machine,
    }
    return canonical_digest(facts)


def _cover(name: str, path: Path, root: Path | None, memory: Path) -> CoveredTool:
    key = canonical_digest([_FORMAT, name, str(path), str(root)]).removeprefix("sha256:")
    note = memory / f"{key}.json"
    known = _recall(note)
    if known is None:
        places = tuple(_find_places(name, path, root))
        before = _build_fingerprint(places)
        digest, files = _digest_places(places)
        if _build_fingerprint(places) != before:
            raise _CoverageError("that it changed while it was read")
        known = _Remembered(fingerprint=before, places=places, digest=digest, files=files)
        write_atomic(note, msgspec.json.encode(known), is_durable=False)
    return CoveredTool(name=name, digest=known.digest, places=known.places, files=known.files)


def _recall(note: Path) -> _Remembered | None:
    """What was read before, if every file is still the one that was read."""
    try:
        known = msgspec.json.decode(note.read_bytes(), type=_Remembered)
        return known if _build_fingerprint(known.places) == known.fingerprint else None
    except (OSError, msgspec.DecodeError, _CoverageError):
        return None


def _find_places(name: str, path: Path, root: Path | None) -> Iterator[str]:
    """Files and directories that make the tool, each once, none inside another."""
    program = path.resolve()
    found = [path, program, *_iter_interpreters(program)]
    found += [root] if root is not None else _list_library_places(name, program)
    libraries = _find_libraries([*_iter_binaries(found)])
    kept: list[Path] = []
    for place in sorted({*found, *libraries}):
        if not any(place.is_relative_to(other) for other in kept):
            kept.append(place)
    yield from map(str, kept)


def _list_library_places(name: str, program: Path) -> list[Path]:
    """The tool's own standard library, as the tool says where it is."""
    places = [Path(place) for place in _ask(program, find_rule(name).libraries)]
    found = [place if place.is_dir() else place.parent for place in places if place.exists()]
    # A package with its program inside.
    found += [parent for parent in program.parents if parent.parent.name == "node_modules"]
    prefix = program.parent.parent
    if program.parent.name == "bin" and str(prefix) not in _SHARED:
        found.append(prefix)
    return [place.resolve() for place in found]


def _ask(program: Path, arguments: tuple[str, ...]) -> list[str]:
    if not arguments:
        return []
    finished = execute_program([str(program), *arguments], variables=_VARIABLES, seconds=_SECONDS)
    lines = finished.stdout.decode(errors="replace").splitlines()
    if finished.status != 0:
        raise _CoverageError(f"that it does not say where its library is (exit code {finished.status})")
    return [line for line in lines if line.startswith("/")]


def _iter_interpreters(program: Path) -> Iterator[Path]:
    """What runs a program that is a script."""
    with program.open("rb") as stream:
        first = stream.readline(1000)
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    for word in words:
        for place in (
            [word] if word.startswith("/") else [f"{each}/{word}" for each in SYSTEM_PATH.split(":")]
        ):
            if Path(place).is_file():
                yield Path(place).resolve()
                break


def _iter_binaries(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        for path in _walk(place):
            is_candidate = path == place or ".so" in path.name or os.access(path, os.X_OK)
            if is_candidate and path.is_file() and _is_binary(path):
                yield path


def _is_binary(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_ELF)) == _ELF
    except PermissionError:
        return False


def _find_libraries(binaries: list[Path]) -> set[Path]:
    """Shared libraries as the loader finds them."""
    chosen = list(dict.fromkeys(binaries))[:_MOST_LIBRARIES]
    if not chosen:
        return set()
    finished = execute_program(
        ["/usr/bin/ldd", *map(str, chosen)], variables=_VARIABLES, seconds=_SECONDS
    )  # exits with 1 where one of them needs none
    found = {Path(os.fsdecode(line)) for line in _LIBRARY.findall(finished.stdout)}
    # The name that programs know, and the file that it leads to.
    return {path for place in found for path in (place.parent.resolve() / place.name, place.resolve())}


def _walk(place: Path) -> Iterator[Path]:
    if place.is_symlink() or not place.is_dir():
        yield place
        return
    count = 0
    for directory, names, files in os.walk(place):
        names[:] = sorted(name for name in names if name != "__pycache__")
        links = [name for name in names if Path(directory, name).is_symlink()]
        for name in sorted((*files, *links)):
            if not name.endswith(".pyc"):
                count += 1
                yield Path(directory, name)
        if count > _MOST_FILES:
            raise _CoverageError(f"more than {_MOST_FILES} files in {place}")


def _build_fingerprint(places: Iterable[str]) -> Digest:
    """Changes when any of the files does, as far as the file system tells."""
    state = hashlib.sha256()
    for place in (*places, str(_LOADER_CACHE)):
        for path in _walk(Path(place)):
            try:
                seen = path.lstat()
            except FileNotFoundError:
                state.update(f"{path}\0absent\n".encode(errors="surrogateescape"))
                continue
            facts = (seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
            state.update(f"{path}\0{facts}\n".encode(errors="surrogateescape"))
    return f"sha256:{state.hexdigest()}"


def _digest_places(places: Iterable[str]) -> tuple[Digest, int]:
    state, count = hashlib.sha256(), 0
    for place in places:
        for path in _walk(Path(place)):
            seen = path.lstat()
            if stat.S_ISLNK(seen.st_mode):
                content = f"-> {path.readlink()}"
            elif stat.S_ISREG(seen.st_mode):
                content, count = _digest_readable(path), count + 1
            else:
                continue
            line = [os.fsencode(path).hex(), f"{stat.S_IMODE(seen.st_mode):o}", content]
            state.update(canonical_bytes(list(line)) + b"\n")
    return f"sha256:{state.hexdigest()}", count


def _digest_readable(path: Path) -> str:
    try:
        return digest_file(path)
    except PermissionError:  # no program in a sandbox can read it either
        return "unreadable"
