"""Measures the source tree: sizes of rooms, names, exports. `make house` prints it; a test holds the limits.

What is counted:
- statements: every `ast.stmt`, so that comments, blanks and line breaks are free; docstrings are told apart.
- names: public classes and type aliases at the top of a module, each counted once.
- exports: names in `__all__` of the rooms' fronts.
- private imports: import statements in `tests/unit` that name a private module of a room; those of
  `tests/support` are counted beside them, so that moving one there is no gain.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_EXEMPT = "_core"
"""A room without a front: its modules are imported by name, so they are not private."""

LIMITS = {
    "ambiguous_names": 15,
    "inner_all": 0,
    "private_imports": 225,
    "support_imports": 55,
}
"""What holds today. A limit is lowered with the tree and never raised without a decision in `docs/adr`."""
GOALS = LIMITS | {"private_imports": 120}
"""Where the limits are to go."""
PER_THOUSAND = {"names": 21.3, "exports": 15.0}
"""At most so many per 1,000 statements: a larger tree may have more names, not denser ones (ADR 0025)."""
ROOM_LINES = 8_000
ROOM_MODULES = 60


@dataclass
class Room:
    """One package directly below `repotrial`."""

    modules: int = 0
    lines: int = 0
    statements: int = 0
    exports: int = 0


@dataclass
class House:
    """The whole tree in figures."""

    statements: int = 0
    docstrings: int = 0
    names: int = 0
    ambiguous_names: int = 0
    exports: int = 0
    inner_all: int = 0
    private_imports: int = 0
    support_imports: int = 0
    rooms: dict[str, Room] = field(default_factory=dict)
    ambiguous: list[str] = field(default_factory=list)

    def list_excesses(self) -> list[str]:
        """Every limit that does not hold, as a line."""
        figures = asdict(self)
        found = [
            f"{name}: expected at most {limit}, found {figures[name]}"
            for name, limit in LIMITS.items()
            if figures[name] > limit
        ]
        found += [
            f"{name}: expected at most {limit} per 1,000 statements, found {figures[name]}"
            for name, limit in PER_THOUSAND.items()
            if figures[name] * 1_000 > limit * max(self.statements, 1_000)
        ]
        for name, room in self.rooms.items():
            if room.lines > ROOM_LINES:
                found.append(f"{name}: expected at most {ROOM_LINES} lines, found {room.lines}")
            if room.modules > ROOM_MODULES:
                found.append(f"{name}: expected at most {ROOM_MODULES} modules, found {room.modules}")
        return found


def measure_house(root: Path = ROOT) -> House:
    """Read the tree and count."""
    house, names = House(), Counter[str]()
    package = root / "src" / "repotrial"
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        where = path.relative_to(package)
        name = where.parts[0] if len(where.parts) > 1 else "(top)"
        room = house.rooms.setdefault(name, Room())
        docstrings = sum(map(_is_docstring, ast.walk(tree)))
        statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        room.modules += 1
        room.lines += text.count("\n")
        room.statements += statements
        house.statements += statements
        house.docstrings += docstrings
        names.update(_iter_public_names(tree))
        exports = _count_exports(tree)
        if exports is None:
            continue
        if where.name == "__init__.py" and len(where.parts) <= 2:  # noqa: PLR2004 - a room's own front
            room.exports = exports
            house.exports += exports
        else:
            house.inner_all += 1
    house.names = len(names)
    house.ambiguous = sorted(name for name, count in names.items() if count > 1)
    house.ambiguous_names = len(house.ambiguous)
    tests = root / "tests"
    house.private_imports = sum(map(_count_private_imports, (tests / "unit").rglob("*.py")))
    house.support_imports = sum(map(_count_private_imports, (tests / "support").rglob("*.py")))
    return house


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _iter_public_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        name = ""
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id if "TypeAlias" in ast.unparse(node.annotation) else ""
        if name and not name.startswith("_"):
            yield name


def _count_exports(tree: ast.Module) -> int | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return len(ast.literal_eval(node.value))
    return None


def _count_private_imports(path: Path) -> int:
    modules = (
        node.module.split(".")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    )
    return sum(
        parts[0] == "repotrial"
        and parts[1:2] != [_EXEMPT]
        and any(part.startswith("_") for part in parts[1:])
        for parts in modules
    )


def main() -> int:
    """Print the table; 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    options = parser.parse_args()
    house = measure_house(options.root)
    if options.json:
        print(json.dumps(asdict(house), indent=2))
        return 0
    print(f"{'room':14}{'modules':>9}{'lines':>9}{'statements':>12}{'exports':>9}")
    for name, room in sorted(house.rooms.items(), key=lambda item: -item[1].lines):
        print(f"{name:14}{room.modules:>9}{room.lines:>9,}{room.statements:>12,}{room.exports:>9}")
    totals = [sum(getattr(room, key) for room in house.rooms.values()) for key in ("modules", "lines")]
    print(f"{'all':14}{totals[0]:>9}{totals[1]:>9,}{house.statements:>12,}{house.exports:>9}")
    print(f"of the statements {house.docstrings:,} are docstrings")
    print(f"{'statements':18}{house.statements:>8,}")
    for key, density in PER_THOUSAND.items():
        found = getattr(house, key)
        share = found * 1_000 / house.statements
        print(f"{key:18}{found:>8,}  ({share:.1f} per 1,000 statements, at most {density})")
    for key, limit in LIMITS.items():
        goal = "" if GOALS[key] == limit else f", goal {GOALS[key]:,}"
        print(f"{key.replace('_', ' '):18}{getattr(house, key):>8,}  (at most {limit:,}{goal})")
    excesses = house.list_excesses()
    for line in excesses:
        print(f"too large: {line}", file=sys.stderr)
    return 1 if excesses else 0


if __name__ == "__main__":
    sys.exit(main())
