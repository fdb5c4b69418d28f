"""Statements of a test that certainly run when the test passes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

FindConstant: TypeAlias = Callable[[str], "ast.expr | None"]

RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_SWALLOWS = frozenset({*RAISES, "suppress", "warns", "assertWarns", "assertWarnsRegex", "RaisesGroup"})
_LEAVES = (ast.Return, ast.Break, ast.Continue)
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def iter_certain(body: Sequence[ast.stmt], find_constant: FindConstant) -> Iterator[ast.stmt]:
    """The statements, those inside of others too, in order; ends where the test may end early."""
    for statement in body:
        yield statement
        yield from _iter_inside(statement, find_constant)
        if _may_leave(statement):
            return


def _iter_inside(statement: ast.stmt, find_constant: FindConstant) -> Iterator[ast.stmt]:
    match statement:
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            if not any(_call_name(item.context_expr) in _SWALLOWS for item in items):
                yield from iter_certain(body, find_constant)
        case ast.For(iter=iterable, body=body) if _has_items(iterable, find_constant):
            yield from iter_certain(body, find_constant)
        case ast.Try(handlers=[], body=body):
            yield from iter_certain(body, find_constant)
        case _:
            return


def _call_name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
        case _:
            return ""


def _has_items(iterable: ast.expr, find_constant: FindConstant) -> bool:
    match iterable:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return any(not isinstance(item, ast.Starred) for item in items)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count > 0
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
            return _has_items(inner, find_constant)
        case ast.Name(id=name):
            constant = find_constant(name)
            return (
                constant is not None
                and not isinstance(constant, ast.Name)
                and _has_items(constant, find_constant)
            )
        case _:
            return False


def _may_leave(statement: ast.stmt) -> bool:
    """Whether control may leave the block here without a failure."""
    if isinstance(statement, (*_LEAVES, ast.Raise)):
        return True
    children = (
        node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt | ast.ExceptHandler)
    )
    if isinstance(statement, _INNER):
        return False
    return any(
        isinstance(node, _LEAVES)
        or (isinstance(node, ast.stmt) and _may_leave(node))
        or _handler_leaves(node)
        for node in children
    )


def _handler_leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler) and any(map(_may_leave, node.body))
