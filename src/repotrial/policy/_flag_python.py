"""A whole Python file: its syntax tells what runs from what is only said."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

from repotrial.policy._flag_lines import (
    WORD_PATTERN,
    FlagConfidence,
    Sighting,
    find_word_code,
    is_patched_library,
)

_MAX_PARTS = 16
"""Of a name that is looked at from each of its parts."""
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_MODULES = {"gc": "object-graph"}
_DOTTED = {
    "inspect.stack": "frame-inspection",
    "inspect.trace": "frame-inspection",
    "os.abort": "early-exit",
    "sys.monitoring": "tracing",
    "weakref.finalize": "exit-hook",
}
_STORED = {"builtins": "builtins", "pytest": "framework-internals", "sys.modules": "import-system"}
_EXITS = frozenset({"sys.exit", "exit", "quit", "SystemExit"})
_CHANGERS = frozenset({"update", "setdefault", "pop", "__setitem__", "clear"})
_IMPORTERS = frozenset({"__import__", "importlib.import_module"})
_EVALUATORS = frozenset({"exec", "eval"})
_UNKNOWN = "{"
_CLASS_CHECKS = frozenset({"__subclasshook__", "__subclasscheck__", "__instancecheck__"})
_EQUALITIES: dict[str, object] = {"__eq__": True, "__ne__": False}


def find_in_module(source: str, tree: ast.Module) -> Iterator[Sighting]:
    """What the file does, and what its comments and docstrings mention."""
    yield from _Reading(tree).find()
    yield from _find_in_comments(source)


class _Reading:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._aliases = dict(_iter_aliases(tree))
        self._stored = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        } | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        """Names that may be something else than the module that is called so."""
        self._prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}

    def find(self) -> Iterator[Sighting]:
        # A stack of our own: a deeply nested file must not exhaust the interpreter's.
        waiting: list[tuple[ast.AST, bool]] = [(self._tree, True)]
        while waiting:
            node, runs_at_import = waiting.pop()
            yield from self._look(node, runs_at_import=runs_at_import)
            inner = runs_at_import and not (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_main_guard(node)
            )
            folded = isinstance(node, ast.BinOp) and _fold(node) is not None
            if not folded:
                waiting.extend((child, inner) for child in ast.iter_child_nodes(node))

    def _look(self, node: ast.AST, *, runs_at_import: bool) -> Iterator[Sighting]:
        if isinstance(node, ast.expr):
            yield from self._look_at_text(node)
        match node:
            case ast.Name() | ast.Attribute():
                yield from self._look_at_name(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield from _see(node, _STORED.get(self._resolve(node.value)))
            case ast.Import() | ast.ImportFrom():
                yield from self._look_at_import(node)
            case ast.Call():
                yield from self._look_at_call(node, runs_at_import=runs_at_import)
            case ast.Raise(exc=ast.Name(id="SystemExit")) if runs_at_import:
                yield from _see(node, "early-exit")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _look_at_function(node)
            case ast.Dict(keys=keys, values=values):
                yield from _look_at_members(keys, values)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(body=ast.Constant(value=value))):
                yield from _see(node, "always-equal" if _is_equality(name, value) else None)
            case _:
                pass

    def _look_at_name(self, node: ast.Name | ast.Attribute) -> Iterator[Sighting]:
        yield from _see(node, find_word_code(node.id if isinstance(node, ast.Name) else node.attr))
        yield from _see(node, _DOTTED.get(self._resolve(node)))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield from _see(node, self._find_owner(self._resolve(node.value)))

    def _look_at_text(self, node: ast.expr) -> Iterator[Sighting]:
        text = _fold(node)
        if text is None:
            return
        is_whole = _NAME.fullmatch(text) is not None or find_word_code(text) == "process-files"
        is_name = is_whole and id(node) not in self._prose
        confidence: FlagConfidence = "code" if is_name else "text"
        for found in WORD_PATTERN.finditer(text):
            yield Sighting(
                code=find_word_code(found[0]) or "",
                line=node.lineno + (text.count("\n", 0, found.start()) if id(node) in self._prose else 0),
                column=node.col_offset,
                confidence=confidence,
            )

    def _look_at_import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Sighting]:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        names = [module, *(alias.name for alias in node.names)]
        for name in names:
            yield from _see(node, _MODULES.get(name))
            for part in name.split("."):
                yield from _see(node, find_word_code(part))
        for alias in node.names:
            yield from _see(node, _DOTTED.get(f"{module}.{alias.name}"))

    def _look_at_call(self, node: ast.Call, *, runs_at_import: bool) -> Iterator[Sighting]:
        called = self._resolve(node.func)
        first = node.args[0] if node.args else None
        if called in _EVALUATORS or (called in _IMPORTERS and not isinstance(first, ast.Constant)):
            yield from _see(node, "dynamic-code")
        if called in {"setattr", "delattr"} and first is not None:
            yield from _see(node, self._find_owner(self._resolve(first)))
        if (
            called == "getattr"
            and len(node.args) > 1
            and self._resolve(node.args[0]) in {"sys", "os", "builtins"}
        ):
            yield from _see(node, None if isinstance(node.args[1], ast.Constant) else "dynamic-code")
        owner, _, method = called.rpartition(".")
        if method in _CHANGERS and owner in _STORED:
            yield from _see(node, _STORED[owner])
        if called in _EXITS and runs_at_import:
            yield from _see(node, "early-exit")

    def _find_owner(self, name: str) -> str | None:
        """The code for writing to an attribute of what has this name."""
        if is_patched_library(name) and name.partition(".")[0] not in self._stored:
            return "library-patching"
        return "assertion-patching" if name.rpartition(".")[2] == "TestCase" else _STORED.get(name)

    def _resolve(self, node: ast.AST) -> str:
        """The full name behind aliases; empty where it is no name, the end of it where it is very long."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            if len(parts) == _MAX_PARTS:
                return ".".join(["", *reversed(parts)])
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._aliases.get(node.id, node.id), *reversed(parts)])


def _iter_aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((each.asname, each.name) for each in names if each.asname is not None)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((each.asname or each.name, f"{module}.{each.name}") for each in names)
            case _:
                pass


def _is_main_guard(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) and not node.orelse else None
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    right = test.comparators[0]
    return (
        isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(right, ast.Constant)
        and right.value == "__main__"
    )


def _is_equality(name: str, value: object) -> bool:
    return name in _EQUALITIES and value is _EQUALITIES[name]


def _look_at_members(keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> Iterator[Sighting]:
    """Members of a class that is made by a call."""
    for key, value in zip(keys, values, strict=True):
        match key, value:
            case ast.Constant(value=str(name)), ast.Lambda(body=ast.Constant(value=result)):
                yield from _see(value, "always-equal" if _is_equality(name, result) else None)
            case _:
                pass


def _look_at_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Sighting]:
    yield from _see(node, "always-equal" if node.name in _CLASS_CHECKS else None)
    yield from _see(node, find_word_code(node.name))
    if node.name.startswith("pytest_"):
        yield from _see(node, "framework-internals")
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    last = body[0] if len(body) == 1 else None
    value = last.value if isinstance(last, ast.Return) else None
    if isinstance(value, ast.Constant) and _is_equality(node.name, value.value):
        yield from _see(node, "always-equal")


def _fold(node: ast.AST) -> str | None:
    """The text that constants make when they are joined: `"_py" + "test"`, reversed, or in an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(op=ast.Add()):
            return _fold_sum(node)
        case ast.JoinedStr(values=values):
            parts = [each.value for each in values if isinstance(each, ast.Constant)]
            return "".join(map(str, parts)) if len(parts) == len(values) else None
        case ast.Subscript(value=ast.Constant(value=str(text)), slice=ast.Slice(lower=None, upper=None)):
            return text[::-1]
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
        ):
            return between.join(_fold_part(part) for part in parts)
        case _:
            return None


def _fold_part(part: ast.expr) -> str:
    """A text as it is; for what is not known yet, a mark."""
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else _UNKNOWN


def _fold_sum(node: ast.BinOp) -> str | None:
    parts: list[str] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        if not isinstance(left.right, ast.Constant) or not isinstance(left.right.value, str):
            return None
        parts.append(left.right.value)
        left = left.left
    if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
        return None
    return left.value + "".join(reversed(parts))


def _see(node: ast.AST, code: str | None) -> Iterator[Sighting]:
    if code is not None:
        yield Sighting(code=code, line=getattr(node, "lineno", 1), column=getattr(node, "col_offset", 0))


def _find_in_comments(source: str) -> Iterator[Sighting]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            for found in WORD_PATTERN.finditer(token.string):
                yield Sighting(
                    code=find_word_code(found[0]) or "",
                    line=token.start[0],
                    column=token.start[1] + found.start(),
                    confidence="text",
                )
