"""Test ids of Python files, as far as reading the source can tell: nothing is imported or run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import msgspec

from repotrial._core.python_source import parse_python
from repotrial.contract import Inventory

_MAX_SOURCE_CHARACTERS = 2_000_000
_PARAMETRIZED = "is parametrized, so its ids are known only after a run"
_MARKED = "is marked to be skipped or to fail, so only a run tells whether it passes"


class PythonTestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A test file before and after the change."""

    path: str
    old: str | None
    new: str


class InventoryGuess(msgspec.Struct, frozen=True, kw_only=True):
    """An inventory read from the source, and what the source could not tell."""

    inventory: Inventory
    unknown: tuple[str, ...]
    """One sentence for each file or test whose ids only a run can tell."""

    @property
    def has_ids(self) -> bool:
        return bool(self.inventory.fail_to_pass or self.inventory.pass_to_pass)


class _Test(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    shape: str
    """The function's syntax tree; equal for code that differs only in layout and comments."""
    doubt: str
    """Why only a run can tell its ids or that it passes; empty if nothing is against it."""


def is_test_module(path: str) -> bool:
    """Whether a file holds tests by its name; pytest finds most of these itself, and takes all by name."""
    name = path.rpartition("/")[2]
    return name in {"test.py", "tests.py"} or (
        name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
    )


def build_python_inventory(files: Sequence[PythonTestFile]) -> InventoryGuess:
    """Candidates: changed and new tests fail before and pass after; the others of these files pass always.

    Ids have the form that pytest writes to JUnit files: `package.module.Class::test_name`.
    """
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    unknown: list[str] = []
    for file in files:
        tests = _read_tests(file.path, file.new)
        if tests is None:
            unknown.append(f"{file.path} cannot be parsed, so its tests are not known")
            continue
        before = {test.id: test.shape for test in _read_tests(file.path, file.old or "") or ()}
        for test in tests:
            if test.doubt:
                unknown.append(f"{test.id} {test.doubt}")
            elif before.get(test.id) == test.shape:
                pass_to_pass.append(test.id)
            else:
                fail_to_pass.append(test.id)
    return InventoryGuess(
        inventory=Inventory(
            fail_to_pass=tuple(dict.fromkeys(fail_to_pass)), pass_to_pass=tuple(dict.fromkeys(pass_to_pass))
        ),
        unknown=tuple(unknown),
    )


def list_test_ids(path: str, source: str) -> tuple[str, ...]:
    """Ids of the tests that a file shows, without parameters; none where it cannot be parsed."""
    return tuple(dict.fromkeys(test.id for test in _read_tests(path, source) or ()))


def _read_tests(path: str, source: str) -> list[_Test] | None:
    if len(source) > _MAX_SOURCE_CHARACTERS:
        return None
    try:
        module = parse_python(source)
        classname = re.sub(r"\.py$", "", path).replace("/", ".")
        return list(_iter_tests(module.body, classname, _find_parametrized_fixtures(module)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # each is a way of saying "not a program"
        return None


def _iter_tests(body: Sequence[ast.stmt], classname: str, fixtures: frozenset[str]) -> Iterator[_Test]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                yield _Test(
                    id=f"{classname}::{node.name}",
                    shape=ast.dump(node),
                    doubt=_find_doubt(node.decorator_list)
                    or (_PARAMETRIZED if fixtures & {arg.arg for arg in node.args.args} else ""),
                )
            case ast.ClassDef() if _is_test_case(node) or _is_test_class(node):
                for test in _iter_tests(node.body, f"{classname}.{node.name}", fixtures):
                    yield msgspec.structs.replace(test, doubt=test.doubt or _find_doubt(node.decorator_list))
            case ast.If() | ast.Try() | ast.With():
                yield from _iter_tests(node.body, classname, fixtures)
            case _:
                continue


def _is_test_case(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def _is_test_class(node: ast.ClassDef) -> bool:
    has_constructor = any(isinstance(item, ast.FunctionDef) and item.name == "__init__" for item in node.body)
    return node.name.startswith("Test") and not has_constructor


def _find_doubt(decorators: Sequence[ast.expr]) -> str:
    names = [ast.unparse(decorator) for decorator in decorators]
    if any("parametrize" in name or "parameterized" in name for name in names):
        return _PARAMETRIZED
    is_marked = any(re.match(r"[\w.]*\b(skip\w*|xfail|expectedFailure)\b", name) for name in names)
    return _MARKED if is_marked else ""


def _find_parametrized_fixtures(module: ast.Module) -> frozenset[str]:
    """Fixtures of this file that run a test several times; those of a conftest.py are not seen."""
    return frozenset(
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(
            isinstance(call, ast.Call)
            and ast.unparse(call.func).endswith("fixture")
            and any(keyword.arg == "params" for keyword in call.keywords)
            for call in node.decorator_list
        )
    )
