"""Graphs of modules and packages: who needs whom, how many, how deep."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from repotrial._core.python_source import parse_module
from repotrial.contract import GraphSize

_SCRIPT_IMPORT: Final = re.compile(
    rb"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)["'](\.[^"'\n]{0,300})["']"""
)
_SCRIPT_ENDINGS: Final = ("", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", "/index.js", "/index.ts")


def measure_graph(nodes: Collection[str], edges: Iterable[tuple[str, str]]) -> GraphSize:
    """Size and depth; what is not a node is left out, and cycles count as one node."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places = {name: place for place, name in enumerate(sorted(nodes))}
    inner = {
        (places[start], places[end])
        for start, end in edges
        if start in places and end in places and start != end
    }
    if not inner:
        return GraphSize(nodes=len(places), edges=0, depth=0)
    rows, columns = np.array(sorted(inner)).T
    matrix = coo_array((np.ones(len(inner)), (rows, columns)), shape=(len(places), len(places)))
    _, groups = connected_components(matrix, directed=True, connection="strong")
    between = {(int(groups[row]), int(groups[column])) for row, column in inner}
    return GraphSize(
        nodes=len(places),
        edges=len(inner),
        depth=_find_depth({edge for edge in between if edge[0] != edge[1]}),
    )


def _find_depth(edges: Collection[tuple[int, int]]) -> int:
    """Edges of the longest chain of a graph without cycles: its ends are taken off, layer by layer."""
    depth = 0
    left = set(edges)
    while left:
        starts = {start for start, _ in left}
        left = {edge for edge in left if edge[1] in starts}
        depth += 1
    return depth


def list_python_imports(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Which Python file imports which other one of the repository."""
    modules = {name: path for path in files for name in _list_names(path)}
    for path, data in files.items():
        tree = parse_module(data.decode("utf-8", "replace"))
        for name in () if tree is None else _iter_imported(tree, path):
            target = modules.get(name) or modules.get(name.rpartition(".")[0])
            if target is not None:
                yield path, target


def _list_names(path: str) -> list[str]:
    """How a file may be imported: from the root, or from a `src` folder."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return [".".join(parts), *([".".join(parts[1:])] if len(parts) > 1 and parts[0] == "src" else [])]


def _iter_imported(tree: ast.Module, path: str) -> Iterator[str]:
    package = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{prefix}.{alias.name}" if prefix else alias.name for alias in node.names)


def list_script_imports(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Which script imports which other one of the repository, by relative paths."""
    for path, data in files.items():
        for found in _SCRIPT_IMPORT.finditer(data):
            wanted = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), found[1].decode("utf-8", "replace"))
            )
            target = next((wanted + end for end in _SCRIPT_ENDINGS if wanted + end in files), None)
            if target is not None:
                yield path, target
