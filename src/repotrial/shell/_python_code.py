"""Python that stands in a command line: which files it reads or writes, which commands it starts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.python_source import parse_module
from repotrial.shell._programs import CommandClass

_MAX_CHARACTERS: Final = 100_000
_WRITING = re.compile(
    r"\bopen\([^)]{0,300},\s*(?:mode\s*=\s*)?['\"][rbt]*[wax+]|\.write_(?:text|bytes)\(|\.writelines?\("
    r"|\b(?:os\.(?:remove|unlink|rename|replace|makedirs|mkdir|rmdir|chmod)|shutil\.\w+)\(|\.(?:unlink|touch|mkdir|rename)\("
)
_RUNNERS: Final = frozenset(
    {
        "os.system",
        "os.popen",
        "subprocess.run",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.Popen",
    }
    | {
        "subprocess.check_output",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "run",
        "system",
        "Popen",
    }
)
_TESTING = re.compile(r"\bpytest\.main\(|\bunittest\.main\(|TextTestRunner\(")

UseKind: TypeAlias = Literal["read", "write", "command"]


class PythonUse(msgspec.Struct, frozen=True, kw_only=True):
    """A file or a command that stands in code as a plain string."""

    kind: UseKind
    text: str


def find_python_class(code: str) -> CommandClass:
    """What code does, as far as its words say; `other` where they do not."""
    if _TESTING.search(code):
        return "test"
    return "write" if _WRITING.search(code) else "other"


def find_python_uses(code: str) -> tuple[PythonUse, ...]:
    """Files that simple code opens and commands that it starts; nothing where it is no Python."""
    tree = parse_module(code) if len(code) <= _MAX_CHARACTERS else None
    return () if tree is None else tuple(_iter_uses(tree))


def _iter_uses(tree: ast.Module) -> Iterator[PythonUse]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        if name in {"open", "io.open", "codecs.open"} and (path := _text(node.args)) is not None:
            mode = _find_mode(node)
            yield PythonUse(kind="write" if re.search(r"[wax+]", mode) else "read", text=path)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            yield from _look_at_path(node.func.attr, node.func.value)
        elif name in _RUNNERS and node.args:
            yield from _look_at_command(node.args[0])


def _look_at_path(method: str, owner: ast.Call) -> Iterator[PythonUse]:
    path = _text(owner.args)
    if path is None or _dotted(owner.func) not in {"Path", "pathlib.Path"}:
        return
    if method in {"read_text", "read_bytes"}:
        yield PythonUse(kind="read", text=path)
    elif method in {"write_text", "write_bytes", "unlink", "touch"}:
        yield PythonUse(kind="write", text=path)


def _look_at_command(argument: ast.expr) -> Iterator[PythonUse]:
    match argument:
        case ast.Constant(value=str(text)):
            yield PythonUse(kind="command", text=text)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            words = [
                each.value
                for each in elements
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            if words and len(words) == len(elements):
                quoted = ("'" + word.replace("'", "'\\''") + "'" for word in words)
                yield PythonUse(kind="command", text=" ".join(quoted))
        case _:
            pass


def _find_mode(node: ast.Call) -> str:
    mode = node.args[1] if len(node.args) > 1 else None
    for keyword in node.keywords:
        if keyword.arg == "mode":
            mode = keyword.value
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else "r"


def _text(arguments: list[ast.expr]) -> str | None:
    first = arguments[0] if arguments else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
