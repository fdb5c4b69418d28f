"""Files as traces name them: what is a path, where the repository begins, and which repository it is."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final

import msgspec

_ROOTS: Final = ("/workspace", "/testbed", "/repo_full")
"""Where harnesses put the repository; the specification names them."""


def normalize_path(path: str) -> str:
    """A path relative to the repository, in lower case; applying it again changes nothing.

    Dots are resolved, spaces around names dropped; one root of the workspace is taken off, and the `a/` and
    `b/` of diffs (R7): all of them, so that a path means the same however often it was normalized.
    """
    text = path.strip().replace("\\", "/")
    for root in _ROOTS:
        if text.startswith(f"{root}/"):
            text = text[len(root) :]
            break
    parts: list[str] = []
    for part in (piece.strip() for piece in text.split("/")):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    while len(parts) > 1 and parts[0] in {"a", "b"}:
        del parts[0]
    return "/".join(parts).lower()


def normalize_as_reference(path: str) -> str:
    """As the reference implementation does at every stage; it is not idempotent."""
    text = path.strip()
    text = text.removeprefix("/workspace/").removeprefix("workspace/")
    if text.startswith(("a/", "b/")):
        text = text[2:]
    return text.strip("/").lower()


_MOST_CHARACTERS: Final = 400
_EXTENSION: Final = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9_+~-]{0,15}$")
_ADDRESS: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/?/")
_CONTEXT: Final = re.compile(r"\.\w{1,10}(?:[-:]\d+[-:]|:\d+$)")
"""`src/x.py-14-text` and `src/x.py:14:text` are lines of files."""
_NEVER: Final = re.compile(
    r"[\x00-\x1f\x7f\u0085\u2028\u2029<>|\"*?`]|  |: |[;:,.]$|/$|^[-\u2013\u2014=#]|^\s|\s$"
)
_SYSTEM: Final = re.compile(
    r"^/(?:bin|boot|dev|etc|lib|lib64|opt|proc|root|run|sbin|sys|tmp|usr|var)(?:/|$)|^~"
)


class FilePlace(msgspec.Struct, frozen=True, gc=False):
    """A file, and the lines of it that were shown, as far as they are known."""

    path: str
    """As the trace spells it."""
    repo: str | None = None
    """The repository, where the trace names it."""
    first: int | None = None
    last: int | None = None


def has_extension(path: str) -> bool:
    """Whether the last part looks like a file's name."""
    return _EXTENSION.search(path) is not None


def is_path(text: str, *, may_have_spaces: bool = False) -> bool:
    """Whether a text on its own can be the path of a file; prose, addresses and lines of files are none."""
    if not text or len(text) > _MOST_CHARACTERS or _NEVER.search(text) or _ADDRESS.match(text):
        return False
    if _CONTEXT.search(text) or not any(character.isalnum() for character in text):
        return False
    return " " not in text or may_have_spaces


class PlaceNames(msgspec.Struct, frozen=True, kw_only=True):
    """How files are called in the document: relative to the repository, with its name where that matters."""

    roots: tuple[str, ...]
    """Directories in which the repository lies, longest first."""
    qualified: tuple[tuple[str, str, str], ...]
    """Repository, path and whole name of each file that ground truth names with its repository."""

    def name(self, place: FilePlace) -> str:
        """A file as it is compared; empty where it is none."""
        path = normalize_path(self._strip(place.path))
        for repo, wanted, whole in self.qualified:
            if place.repo is not None:
                if path == wanted and _is_same(repo, _fold_repo(place.repo)):
                    return whole
            elif path.endswith(f"/{wanted}") and _is_checkout(path.removesuffix(f"/{wanted}"), repo):
                return whole
        return path

    def is_inside(self, path: str) -> bool:
        """Whether a path of a shell command can belong to the repository."""
        if not path.startswith(("/", "~")):
            return True
        if any(path == root or path.startswith(f"{root}/") for root in (*self.roots, *_ROOTS)):
            return True
        return _SYSTEM.match(path) is None and not self.roots

    def _strip(self, path: str) -> str:
        for root in self.roots:
            if path.startswith(f"{root}/"):
                return path[len(root) + 1 :]
        return path


def build_names(*, roots: Iterable[str | None], truth: Iterable[str]) -> PlaceNames:
    """Names for one task: from where its agent worked, and from what its ground truth says."""
    known = {posixpath.normpath(root) for root in roots if root and root.startswith("/")} - {"/"}
    qualified = []
    for file in truth:
        repo, separator, path = file.partition("::")
        if separator and repo and path:
            qualified.append((_fold_repo(repo), normalize_path(path), normalize_path(file)))
    return PlaceNames(
        roots=tuple(sorted(known, key=lambda root: (-len(root), root))), qualified=tuple(qualified)
    )


def _fold_repo(repo: str) -> str:
    """A repository without scheme, host, revision and ending: `owner/name`, or `name`."""
    text = (
        re.sub(r"^[a-z+]+://", "", repo.strip().casefold()).partition("@")[0].strip("/").removesuffix(".git")
    )
    first, separator, rest = text.partition("/")
    return rest if separator and "." in first else text


def _is_same(one: str, other: str) -> bool:
    """Mirrors have an owner of their own: `owner--name--revision`, `owner-name`, `name--revision`."""
    if one == other:
        return True
    owner, _, name = one.rpartition("/")
    other_owner, _, other_name = other.rpartition("/")
    if not owner or not other_owner:
        return name == other_name
    return _is_mirror(other_name, owner, name) or _is_mirror(name, other_owner, other_name)


def _is_mirror(mirror: str, owner: str, name: str) -> bool:
    names = {name, f"{owner}-{name}", f"{owner}--{name}"}
    return mirror in names - {name} or any(mirror.startswith(f"{each}--") for each in names)


def _is_checkout(directory: str, repo: str) -> bool:
    owner, _, name = repo.rpartition("/")
    found = directory.removeprefix("workspace/")
    return found in {repo, name} or _is_mirror(found, owner, name)
