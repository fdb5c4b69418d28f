"""Handlers that catch everything and go on: each is listed with its reason, and a further one is refused."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_BROAD = {"Exception", "BaseException"}

ALLOWED = {
    "_attempts.py: end": "a sink that fails is noted, and the other attempts are still reported",
    "_control.py: ask_control": "an upstream may fail in any way; that is the result",
    "_conduct.py: carry_out": "the fault goes into the record, which is sealed with it",
    "_flow.py: _close": "noted: the next exchange is not affected",
    "_flow.py: _open": "noted: the agent gets a refusal and does not wait for ever",
    "_flow.py: _record": "noted: the refusal still goes out",
    "_flow.py: _release": "noted: what was not examined does not go out",
    "_flow.py: conduct": "an upstream may fail in any way; the agent gets an answer, the record the reason",
    "_loop.py: _keep_running": "told to every run that the thread served, which raises it",
    "_main.py: main": "the last frame: prints the traceback and how to report it",
    "_breakers.py: _watch": "the fault is kept, ends the run, and makes it invalid",
    "_proxy.py: _answer": "the attempt is closed as failed and noted; raised if an answer began",
    "_proxy.py: _connect": "the attempt is closed as failed and noted",
    "_run_text.py: read_run": "a directory that no judge can read is listed without a verdict",
    "_serve.py: _become_child": "a forked child: printed for the harness, then it exits",
    "_server.py: _record": "noted: the agent still gets its answer",
    "_stages.py: _serve": "kept, refuses every stage, and raised on close",
    "_meters.py: _run": "kept, and raised by the caller that waits for the samples",
    "_supervisor.py: _run": "kept, and raised by `stop`",
    "_supervisor.py: _admit": "raised again unless the request cannot be recorded: then it is refused",
    "_trials.py: _judge": "one verdict that fails is reported; the other runs go on",
}


def _list_names(kind: ast.expr | None) -> set[str]:
    if kind is None:
        return _BROAD
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _swallows(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        is_broad = bool(_list_names(node.type) & _BROAD)
        return is_broad and not any(isinstance(statement, ast.Raise) for statement in node.body)
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
        return any(_list_names(argument) & _BROAD for argument in node.args)
    return False


def _iter_swallowing(node: ast.AST, name: str = "") -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = child.name
        if _swallows(child):
            yield inner, getattr(child, "lineno", 0)
        yield from _iter_swallowing(child, inner)


def _find_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {f"{path.name}: {name}" for name, _ in _iter_swallowing(tree)}


def test_every_handler_that_swallows_everything_has_its_reason() -> None:
    found = set[str]().union(*(_find_in(path) for path in (ROOT / "src").rglob("*.py")))
    assert found - ALLOWED.keys() == set(), "narrow it, raise again, or list it with its reason"
    assert ALLOWED.keys() - found == set(), "it is gone: take it out of the list"


def test_every_handler_that_swallows_everything_explains_itself_where_it_stands() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for name, number in _iter_swallowing(ast.parse("\n".join(lines))):
            nearby = "\n".join(lines[number - 2 : number + 4])
            assert "#" in nearby, f"{path.name}:{number}: {name}"


@pytest.mark.parametrize(
    "code",
    [
        "try: pass\nexcept Exception: pass",
        "try: pass\nexcept: pass",
        "try: pass\nexcept (ValueError, BaseException) as error: print(error)",
        "with contextlib.suppress(Exception): pass",
        "try: pass\nexcept Exception:\n    if True: raise",
    ],
)
def test_a_handler_that_swallows_is_seen(code: str) -> None:
    assert list(_iter_swallowing(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "try: pass\nexcept OSError: pass",
        "try: pass\nexcept BaseException:\n    clean()\n    raise",
        "try: pass\nexcept Exception as error: raise ValueError from error",
        "with contextlib.suppress(OSError): pass",
    ],
)
def test_a_handler_that_is_narrow_or_raises_is_not(code: str) -> None:
    assert not list(_iter_swallowing(ast.parse(code)))
