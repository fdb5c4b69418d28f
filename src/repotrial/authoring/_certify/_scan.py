"""What an agent could find: the history, the reference or the oracle in what it is shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import AgentError
from repotrial.change import ChangedFile, read_change
from repotrial.contract import Check, LoadedContract

_MOST_BYTES: Final = 8 * 2**20
_MIN_LINES: Final = 3
_MIN_CHARACTERS: Final = 60
_HISTORY: Final = ".git"


def find_hidden_files(loaded: LoadedContract) -> dict[str, str]:
    """By digest: oracle files that the snapshot must not have.

    Checks that pass before the change may repeat tests that everybody can see.
    """
    checks = loaded.contract.checks
    hidden = [overlay for check in checks if _is_hidden(loaded, check) for overlay in check.files]
    hidden += [overlay for check in checks for overlay in check.negative]
    sources = [overlay.source.rstrip("/") for overlay in hidden]
    return {
        pin.digest: pin.path
        for pin in loaded.files
        if any(pin.path == source or pin.path.startswith(f"{source}/") for source in sources)
    }


def _is_hidden(loaded: LoadedContract, check: Check) -> bool:
    inventory = loaded.inventories.get(check.id)
    return check.baseline == "fail" or bool(inventory and inventory.fail_to_pass)


def find_leaked_oracle(loaded: LoadedContract, tree: Path) -> list[str]:
    """Files of the tree that are hidden tests, byte for byte."""
    hidden = find_hidden_files(loaded)
    empty = digest_bytes(b"")
    return [
        f"{path} is the oracle file {hidden[digest]}: remove it from the snapshot"
        for path, data in _iter_files(tree)
        if (digest := digest_bytes(data)) in hidden and digest != empty
    ]


def find_leaked_reference(loaded: LoadedContract, tree: Path) -> list[str]:
    """Files of the tree that hold a whole block of what the reference adds, in its order.

    Single lines say little: every language has some that occur everywhere. A block that the reference also
    removes is only moved.
    """
    blocks = list(_iter_blocks(loaded.reference or b""))
    return [
        f"{path} holds {block.count(chr(10)) + 1} lines that the reference adds: remove them"
        for path, data in _iter_files(tree)
        for block in blocks
        if block.encode() in data
    ]


def _iter_blocks(reference: bytes) -> Iterator[str]:
    try:
        files = read_change(reference).files
    except AgentError:  # `patch-unreadable`
        return  # the reference's own runs say so
    removed = "\n".join(line for file in files for line in file.removed_lines)
    for file in files:
        for block in _iter_runs(file):
            text = "\n".join(block)
            is_telling = sum(bool(line.strip()) for line in block) >= _MIN_LINES
            if is_telling and len("".join(text.split())) >= _MIN_CHARACTERS and text not in removed:
                yield text


def _iter_runs(file: ChangedFile) -> Iterator[list[str]]:
    """Added lines that stand one below the other."""
    run: list[str] = []
    last = 0
    for added in file.added_lines:
        if run and added.number != last + 1:
            yield run
            run = []
        run.append(added.text)
        last = added.number
    if run:
        yield run


def _iter_files(tree: Path) -> Iterator[tuple[str, bytes]]:
    if tree.is_file():
        yield tree.name, tree.read_bytes()
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name != _HISTORY]
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_BYTES:
                yield path.relative_to(tree).as_posix(), path.read_bytes()
