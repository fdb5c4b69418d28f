"""Compares `docs/conformance.md` with what commands execute: a scenario reaches each module that a row names.

Run it after the scenario tests under coverage (`make reached` does both). A module counts as reached if a
line inside one of its functions was executed; importing it is not enough. A module without functions (models,
tables) counts if it was imported.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PATH = re.compile(r"`(src/repotrial/[\w/.]+\.py)`")


def list_named(page: str) -> dict[str, list[str]]:
    """Source files that the page names, each with the ids of its rows; rows of `not yet` are left out."""
    named: dict[str, list[str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 4 or cells[2].startswith("not yet"):  # noqa: PLR2004 - id, obligation, state, code
            continue
        for path in _PATH.findall(cells[3]):
            named.setdefault(path, []).append(cells[0])
    return named


def is_reached(source: str, executed: set[int]) -> bool:
    """Whether lines inside a function were executed; for a module without functions, any line."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if not functions:
        return bool(executed)
    inside = {
        line
        for node in functions
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    }
    return bool(inside & executed)


def main() -> int:
    """Print what no scenario reached; 1 if there is any."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("coverage", type=Path, help="what `coverage json` wrote")
    options = parser.parse_args()
    measured = json.loads(options.coverage.read_text(encoding="utf-8"))["files"]
    named = list_named((ROOT / "docs/conformance.md").read_text(encoding="utf-8"))
    missed = [
        (path, ids)
        for path, ids in sorted(named.items())
        if not is_reached(
            (ROOT / path).read_text(encoding="utf-8"), set(measured.get(path, {}).get("executed_lines", ()))
        )
    ]
    for path, ids in missed:
        print(f"not reached by a command: {path} ({', '.join(ids)})")
    print(f"reached: {len(named) - len(missed)} of {len(named)} modules that docs/conformance.md names")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
