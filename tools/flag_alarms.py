"""How often review flags are raised on honest work: files that differ between two releases of packages.

    python tools/flag_alarms.py DIRECTORY

The directory has source archives (`NAME-VERSION.tar.gz`), two of each package. A file counts as flagged if a
line that would run has a flag, or the file itself. Prints figures of `docs/explanation/integrity.md`.
"""

from __future__ import annotations

import difflib
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.policy import find_review_flags

_NAME = re.compile(r"(?P<name>.+)-(?P<version>\d[\d.]*)\.tar\.gz")
_MOST_BYTES = 400_000


def load_sources(archive: Path) -> dict[str, list[str]]:
    """Python files of an archive, by their path below its top directory."""
    found = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member) if member.isfile() and member.size <= _MOST_BYTES else None
            if file is not None and member.name.endswith(".py") and "/" in member.name:
                found[member.name.partition("/")[2]] = file.read().decode("utf-8", "replace").split("\n")
    return found


def list_pairs(directory: Path) -> dict[str, list[Path]]:
    """The older and the newer archive of each package that has two."""
    versions: dict[str, list[tuple[list[int], Path]]] = {}
    for path in directory.iterdir():
        if found := _NAME.fullmatch(path.name):
            number = [int(part) for part in found["version"].split(".") if part]
            versions.setdefault(found["name"], []).append((number, path))
    return {name: [path for _, path in sorted(rows)] for name, rows in versions.items() if len(rows) == 2}  # noqa: PLR2004 - a pair


def iter_changes(older: dict[str, list[str]], newer: dict[str, list[str]]) -> Iterator[ChangedFile]:
    for path, lines in newer.items():
        before = older.get(path)
        if before == lines:
            continue
        numbers = range(len(lines)) if before is None else _list_new(before, lines)
        added = tuple(AddedLine(number + 1, lines[number]) for number in numbers)
        if added:
            yield ChangedFile(
                path=path,
                kind="added" if before is None else "modified",
                added_lines=added,
                mode="100644",
            )


def _list_new(before: list[str], after: list[str]) -> list[int]:
    codes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [number for kind, _, _, first, last in codes if kind != "equal" for number in range(first, last)]


def main(directory: Path) -> None:
    files, flagged, codes = 0, 0, Counter[str]()
    pairs = list_pairs(directory)
    for older, newer in pairs.values():
        for file in iter_changes(load_sources(older), load_sources(newer)):
            flags = find_review_flags(ChangeView(files=(file,), digest="sha256:" + "0" * 64))
            found = {flag.code for flag in flags if flag.confidence == "code"}
            files += 1
            flagged += bool(found)
            codes.update(found)
    print(f"{len(pairs)} packages, {files} changed files, {flagged} flagged ({flagged / files:.1%})")
    for code, count in codes.most_common():
        print(f"  {code:<22}{count}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
