"""What a name in a test stands for, where the file says it in a literal."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence

from repotrial.judging._twins._functions import Function, SourceEdit, SourceText
from repotrial.judging._twins._literals import LiteralChanger

_MAX_CONSTANT_CHARACTERS = 200


def find_constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the module binds once, at its top level."""
    bound: dict[str, list[ast.expr]] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                bound.setdefault(name, []).append(value)
            case _:
                continue
    stores = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _is_stored(node)]
    return {name: values[0] for name, values in bound.items() if stores.count(name) == 1}


class TestScope:
    """The names of one test."""

    def __init__(
        self, source: SourceText, function: Function, constants: dict[str, ast.expr], rng: random.Random
    ) -> None:
        self._source = source
        self._function = function
        self._constants = constants
        self.changer = LiteralChanger(source, function, rng, self._resolve)
        names = [node for item in function.body for node in ast.walk(item) if isinstance(node, ast.Name)]
        self._loads = [node.id for node in names if not _is_stored(node)]
        self._stores = [node.id for node in names if _is_stored(node)]
        arguments = function.args
        self._parameters = {
            item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        }

    def find_constant(self, name: str) -> ast.expr | None:
        """The value of a name that the module binds and the test does not."""
        is_local = name in self._parameters or name in self._stores
        return None if is_local else self._constants.get(name)

    def _resolve(self, node: ast.Name) -> list[SourceEdit] | None:
        constant = self.find_constant(node.id)
        if constant is not None:
            return self._replace_constant(node, constant)
        # A value that is also given to the code under test may not change: the answer would change with it.
        if self._loads.count(node.id) != 1:
            return None
        if node.id in self._parameters and node.id not in self._stores:
            return self._change_parameter(node.id)
        return self._change_assignment(node.id) if self._stores.count(node.id) == 1 else None

    def _replace_constant(self, node: ast.Name, constant: ast.expr) -> list[SourceEdit] | None:
        text = self._source.read(constant)
        if not isinstance(constant, ast.Constant) or len(text) > _MAX_CONSTANT_CHARACTERS or "\n" in text:
            return None
        changed = self.changer.change_text(text)
        return None if changed is None else [self._source.replace(node, changed)]

    def _change_assignment(self, name: str) -> list[SourceEdit] | None:
        for statement in self._function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return self.changer.find(value)
        return None

    def _change_parameter(self, name: str) -> list[SourceEdit] | None:
        """Every row of the table that gives the parameter its values."""
        for values in _iter_columns(self._function.decorator_list, name):
            changes = [self.changer.find(value) for value in values]
            found = [edits for edits in changes if edits is not None]
            if found and len(found) == len(changes):
                return [edit for edits in found for edit in edits]
        return None


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _iter_columns(decorators: Sequence[ast.expr], name: str) -> Iterator[list[ast.expr]]:
    for decorator in decorators:
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"),
                args=[names, ast.List(elts=rows) | ast.Tuple(elts=rows)],
            ):
                cells = _read_column(names, rows, name)
            case _:
                continue
        known = [cell for cell in cells if cell is not None]
        if len(known) == len(cells):
            yield known


def _read_column(names: ast.expr, rows: Sequence[ast.expr], name: str) -> list[ast.expr | None]:
    columns = _read_names(names)
    if columns.count(name) != 1:
        return []
    is_single = len(columns) == 1 and isinstance(names, ast.Constant)
    return [_read_cell(row, None if is_single else columns.index(name)) for row in rows]


def _read_names(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [name.strip() for name in text.split(",") if name.strip()]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [
                item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
        case _:
            return []


def _read_cell(row: ast.expr, index: int | None) -> ast.expr | None:
    """The value of one row; None where a mark may keep the row from failing."""
    match row:
        case ast.Call(func=ast.Attribute(attr="param"), args=cells, keywords=keywords):
            if any(keyword.arg != "id" for keyword in keywords):
                return None
        case ast.Tuple(elts=cells) | ast.List(elts=cells) if index is not None:
            pass
        case _:
            return row if index is None else None
    position = index or 0
    is_plain = position < len(cells) and not any(isinstance(cell, ast.Starred) for cell in cells)
    return cells[position] if is_plain else None
