"""The files of a commit, straight from its objects, with those of its submodules in their places.

No checkout takes place: attributes, filters, line-ending rules, `export-ignore` and `export-subst` have no
say, and the bytes are the committed ones.
"""

from __future__ import annotations

import stat
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial.contract import SubmodulePin
from repotrial.source._address import (
    PROTOCOL_REFUSED,
    SOURCE_HAS_CREDENTIALS,
    SOURCE_OUTSIDE,
    SOURCE_REFUSED,
    Address,
    join_address,
    parse_address,
)
from repotrial.source._git import GitCommandError
from repotrial.source._objects import (
    GIT_OBJECT_CORRUPT,
    NOT_A_REPOSITORY,
    OBJECT_FORMAT_MISMATCH,
    REPOSITORY_REFUSED,
    ObjectReader,
    TreeItem,
    parse_tree,
)
from repotrial.source._store import BUNDLE_UNREADABLE, COMMIT_NOT_FOUND, FETCH_FAILED, ObjectStore, open_store
from repotrial.source._tree import (
    TREE_LIMIT,
    FileMode,
    Member,
    SnapshotLimits,
    SourceOptions,
    render_path,
    verify_path,
)

_GITLINK = 0o160000
_MODULES_FILE = b".gitmodules"
_MODULES_BYTES = 1 << 20


# What can be wrong with where a submodule comes from; what is wrong with its files keeps its own name.
_SOURCE_CODES = (
    BUNDLE_UNREADABLE,
    COMMIT_NOT_FOUND,
    SOURCE_HAS_CREDENTIALS,
    NOT_A_REPOSITORY,
    OBJECT_FORMAT_MISMATCH,
    PROTOCOL_REFUSED,
    REPOSITORY_REFUSED,
    SOURCE_OUTSIDE,
    SOURCE_REFUSED,
)


SUBMODULE_UNRESOLVED = ErrorCode(
    "submodule-unresolved",
    ContractError,
    "A submodule cannot be resolved: no URL, a source that cannot be used, or a pin for another commit.",
    hint="name a source for it under `repository.submodules`, for example a bundle beside the contract",
)


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One repository of the walk: the top one, or a submodule at `prefix`."""

    store: ObjectStore
    reader: ObjectReader
    prefix: bytes
    modules: Mapping[bytes, str]
    """URLs by submodule path, from this repository's `.gitmodules`."""


class CommitWalk:
    """Walks commits and their submodules, and remembers which submodules it met.

    Args:
        pins: What the contract says about submodules; each must be met, with that commit.
        base: The contract directory, where the pins' own sources start.
        protocols: Transports that submodules may use.
        options: Limits and places.
    """

    def __init__(
        self, pins: Sequence[SubmodulePin], *, base: Path, protocols: Sequence[str], options: SourceOptions
    ) -> None:
        self._pins = {pin.path.encode(): pin for pin in pins}
        self._base = base
        self._protocols = protocols
        self._options = options
        self._seen = 0
        self._found: dict[bytes, SubmodulePin] = {}

    @property
    def submodules(self) -> tuple[SubmodulePin, ...]:
        """The submodules met so far, by path."""
        return tuple(self._found[path] for path in sorted(self._found))

    def iter_members(self, address: Address, commit: str, *, prefix: bytes = b"") -> Generator[Member]:
        """Every file and link of a commit, submodules included.

        Raises:
            SUBMODULE_UNRESOLVED: a submodule cannot be resolved, or is not the pinned one.
        """
        with (
            open_store(address, commit=commit, options=self._options, protocols=self._protocols) as store,
            store.open_reader() as reader,
        ):
            tree = parse_commit_headers(reader.read(commit, kind="commit"))["tree"][0]
            items = self._list(reader, store, tree)
            modules = _read_modules(reader, store, items)
            frame = _Frame(store=store, reader=reader, prefix=prefix, modules=modules)
            yield from self._iter_items(frame, items, prefix)

    def verify_pins_met(self) -> None:
        """After the walk: a pin for a submodule that is not there is a mistake in the contract."""
        if missing := [render_path(path) for path in self._pins if path not in self._found]:
            raise SUBMODULE_UNRESOLVED.error(
                f"expected a submodule at each pinned path, found none at {', '.join(missing)}"
            )

    def _list(self, reader: ObjectReader, store: ObjectStore, tree: str) -> list[TreeItem]:
        items = parse_tree(reader.read(tree, kind="tree"), store.object_format)
        self._seen += len(items)
        # Trees within trees can name each other so often that a small repository has billions of paths.
        if self._seen > self._options.limits.entries:
            raise TREE_LIMIT.error(f"expected at most {self._options.limits.entries} entries, found more")
        return items

    def _iter_items(self, frame: _Frame, items: Sequence[TreeItem], prefix: bytes) -> Iterator[Member]:
        for item in items:
            path = prefix + item.name
            verify_path(path, self._options.limits)
            match item.kind:
                case stat.S_IFDIR:
                    inner = self._list(frame.reader, frame.store, item.object_id)
                    yield from self._iter_items(frame, inner, path + b"/")
                case stat.S_IFREG | stat.S_IFLNK:
                    yield _build_member(frame.reader, item, path=path, limits=self._options.limits)
                case _ if item.kind == _GITLINK:
                    yield from self._iter_submodule(frame, item, path)
                case _:
                    raise GIT_OBJECT_CORRUPT.error(
                        f"expected a file mode, found {item.mode:o} at {render_path(path)}"
                    )

    def _iter_submodule(self, frame: _Frame, item: TreeItem, path: bytes) -> Iterator[Member]:
        shown = render_path(path)
        if len(self._found) >= self._options.limits.submodules:
            raise TREE_LIMIT.error(
                f"expected at most {self._options.limits.submodules} submodules, found more"
            )
        pin = self._pins.get(path)
        if pin is not None and pin.commit != item.object_id:
            raise SUBMODULE_UNRESOLVED.error(
                f"expected the submodule {shown} at {pin.commit}, found {item.object_id}"
            )
        self._found[path] = _build_pin(path, item.object_id)
        try:
            address = self._locate(frame, path, pin)
            yield from self.iter_members(address, item.object_id, prefix=path + b"/")
        except MachineError as error:
            if error.code != FETCH_FAILED:
                raise
            raise FETCH_FAILED.error(f"submodule {shown}: {error.message}") from error
        except ContractError as error:
            if error.code not in _SOURCE_CODES:
                raise
            raise SUBMODULE_UNRESOLVED.error(f"submodule {shown}: {error.message}") from error

    def _locate(self, frame: _Frame, path: bytes, pin: SubmodulePin | None) -> Address:
        if pin is not None and pin.source is not None:
            return parse_address(pin.source, base=self._base, protocols=self._protocols)
        url = frame.modules.get(path.removeprefix(frame.prefix))
        if url is None:
            raise SUBMODULE_UNRESOLVED.error(
                f"expected a URL for the submodule {render_path(path)} in .gitmodules, found none"
            )
        return join_address(url, parent=frame.store.address, protocols=self._protocols)


def parse_commit_headers(data: bytes) -> dict[str, list[str]]:
    """The headers of a commit object (tree, parent, author, encoding …), without continuation lines.

    Raises:
        GIT_OBJECT_CORRUPT: there is no tree.
    """
    headers: dict[str, list[str]] = {}
    for line in data.partition(b"\n\n")[0].split(b"\n"):
        name, _, value = line.partition(b" ")
        if name:
            headers.setdefault(name.decode(errors="replace"), []).append(value.decode(errors="replace"))
    if len(headers.get("tree", [])) != 1:
        raise GIT_OBJECT_CORRUPT.error("expected a commit with one tree, found another number of them")
    return headers


def _build_member(reader: ObjectReader, item: TreeItem, *, path: bytes, limits: SnapshotLimits) -> Member:
    if item.kind == stat.S_IFLNK:
        mode = FileMode.SYMLINK
    else:
        mode = FileMode.EXECUTABLE if item.mode & stat.S_IXUSR else FileMode.REGULAR
    return Member(
        path=path,
        mode=mode,
        chunks=reader.iter_chunks(item.object_id, kind="blob", max_bytes=limits.file_bytes),
    )


def _build_pin(path: bytes, commit: str) -> SubmodulePin:
    try:
        return msgspec.convert({"path": path.decode(), "commit": commit}, SubmodulePin)
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise SUBMODULE_UNRESOLVED.error(
            f"expected a submodule path that a contract can hold, found {render_path(path)}"
        ) from error


def _read_modules(reader: ObjectReader, store: ObjectStore, items: Sequence[TreeItem]) -> dict[bytes, str]:
    """URLs by path; names, `update` commands and all else that `.gitmodules` may say have no effect."""
    item = next((item for item in items if item.name == _MODULES_FILE and item.kind == stat.S_IFREG), None)
    if item is None:
        return {}
    # Read it first: it must be what its name says before git parses it.
    reader.read(item.object_id, kind="blob", max_bytes=_MODULES_BYTES)
    try:
        listing = store.execute(["config", f"--blob={item.object_id}", "--no-includes", "--null", "--list"])
    except GitCommandError as error:
        raise SUBMODULE_UNRESOLVED.error(f"expected a readable .gitmodules: {error.message}") from error
    return _parse_modules(listing)


def _parse_modules(listing: bytes) -> dict[bytes, str]:
    paths: dict[bytes, bytes] = {}
    urls: dict[bytes, str] = {}
    for line in listing.split(b"\0"):
        key, _, value = line.partition(b"\n")
        section, _, field = key.rpartition(b".")
        if field == b"path":
            paths[section] = value.rstrip(b"/")
        elif field == b"url":
            urls[section] = value.decode(errors="replace")
    return {path: urls[section] for section, path in paths.items() if section in urls}
