"""Size limits: a raise needs a reason in the review."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

MAX_BODY_LINES = 50
MAX_MODULE_LINES = 400
MAX_NESTING = 4

_BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def _nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        step = 1 if isinstance(child, _BLOCKS) and not is_elif else 0
        deepest = max(deepest, _nesting(child, depth + step))
    return deepest


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.name != "__init__.py":  # a package's front page only lists what it exports
        assert text.count("\n") <= MAX_MODULE_LINES
    for function in _functions(ast.parse(text)):
        assert _body_lines(function) <= MAX_BODY_LINES, function.name
        assert _nesting(function) <= MAX_NESTING, function.name
