"""Which of an agent's tools does what, and arguments for it, filled in by the schema that it came with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from repotrial.wire import ToolCall

_Role: TypeAlias = Literal["command", "path", "old", "new", "content", "text", "mode"]
"""What a value means, whatever the tool calls it."""

Values: TypeAlias = Mapping[_Role, tuple[str, ...]]
"""What the script knows; of several values the first that the schema allows."""

_NAMES: Final[Mapping[_Role, frozenset[str]]] = {
    "command": frozenset(
        {"command", "cmd", "commands", "script", "commandline", "bashcommand", "shellcommand"}
    ),
    "path": frozenset(
        {
            "path",
            "paths",
            "filepath",
            "filepaths",
            "absolutepath",
            "targetfile",
            "filename",
            "file",
            "files",
            "relativepath",
            "relativeworkspacepath",
            "uri",
        }
    ),
    "old": frozenset(
        {"old", "oldstring", "oldstr", "oldtext", "before", "search", "searchtext", "find", "original"}
    ),
    "new": frozenset(
        {"new", "newstring", "newstr", "newtext", "after", "replace", "replacement", "replacewith"}
    ),
    "content": frozenset({"content", "contents", "filetext", "filecontent", "text", "data", "code", "body"}),
    "text": frozenset(
        {"message", "result", "summary", "text", "answer", "response", "output", "finalanswer", "content"}
    ),
    "mode": frozenset({"command", "mode", "action", "operation", "subcommand"}),
}

_GROUPS: Final = frozenset({"edits", "edit", "changes", "replacements", "operations", "files", "blocks"})
"""Members that hold what other tools have at the top."""

_FILLER: Final = "scripted step"
_TIMEOUT_SECONDS: Final = 120
_MAX_LEVELS: Final = 6

_OTHER: Final = re.compile(r"[^a-z0-9]+")


class _Filled(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments, and what of the script went into them."""

    arguments: dict[str, Any]
    used: frozenset[_Role]
    is_elsewhere: bool
    """Whether the tool has to be told what to do, and nothing that was meant is among its choices."""


def normalize_word(name: str) -> str:
    """A name in the form in which it is compared: `oldString`, `old_string` and `OLD-STRING` are one."""
    return _OTHER.sub("", name.casefold())


def fill_arguments(schema: bytes, values: Values) -> _Filled:
    """Fill in what the script knows, and anything that is required, by the schema's own types."""
    root = _decode(schema)
    filling = _Filling(root, values)
    arguments = filling.fill_object(root, _MAX_LEVELS)
    return _Filled(arguments=arguments, used=frozenset(filling.used), is_elsewhere=filling.is_elsewhere)


def fill_schema(schema: bytes) -> Any:
    """A value that a schema allows: for requests that want their answer in a given form."""
    root = _decode(schema)
    return _Filling(root, {}).fill(root, "", _MAX_LEVELS)


def _decode(schema: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class _Filling:
    def __init__(self, root: dict[str, Any], values: Values) -> None:
        self.used: set[_Role] = set()
        self.is_elsewhere = False
        self._root = root
        self._values = values

    def fill_object(self, schema: dict[str, Any], levels: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        wanted = set(map(str, required)) if isinstance(required, list) else set()
        filled: dict[str, Any] = {}
        # What is required is served first: some tools have a second place for much the same.
        for name, given in sorted(properties.items(), key=lambda item: item[0] not in wanted):
            inner = self._resolve(given)
            role = self._find_role(name, inner)
            if role is not None:
                self.used.add(role)
                filled[name] = self._place(role, name, inner, levels)
            elif name in wanted or self._is_group(name, inner):
                is_choice = "mode" in self._values and normalize_word(name) in _NAMES["mode"]
                self.is_elsewhere |= is_choice and isinstance(inner.get("enum"), list)
                filled[name] = self.fill(inner, name, levels - 1)
        return filled

    def fill(self, schema: dict[str, Any], name: str, levels: int) -> Any:
        """A value of this schema; what the script knows goes into the objects in it."""
        for key in ("const", "default"):
            if schema.get(key) is not None:
                return schema[key]
        allowed = schema.get("enum")
        if isinstance(allowed, list) and allowed:
            return "LOW" if "LOW" in allowed else allowed[0]
        match _find_type(schema):
            case "object" if levels > 0:
                return self.fill_object(schema, levels)
            case "object":
                return {}
            case "array" if levels > 0 and (self._is_group(name, schema) or schema.get("minItems")):
                return [self.fill(self._resolve(schema.get("items")), "", levels - 1)]
            case "array":
                return []
            case "boolean":
                return False
            case "integer" | "number":
                return _fill_number(schema, name)
            case _:
                return _FILLER

    def _find_role(self, name: str, schema: dict[str, Any]) -> _Role | None:
        word = normalize_word(name)
        if self._is_group(name, schema):
            return None
        for role, candidates in self._values.items():
            if word not in _NAMES[role] or role in self.used:
                continue
            allowed = schema.get("enum")
            if isinstance(allowed, list):
                fits = bool(set(candidates) & set(map(str, allowed)))
            else:
                fits = role != "mode"
            if fits:
                return role
        return None

    def _place(self, role: _Role, name: str, schema: dict[str, Any], levels: int) -> Any:
        candidates = self._values[role]
        allowed = schema.get("enum")
        value = candidates[0]
        if isinstance(allowed, list):
            value = next(item for item in candidates if item in allowed)
        if _find_type(schema) != "array":
            return value
        if role == "command" and not normalize_word(name).endswith("s"):
            return ["bash", "-c", value]
        inner = self._resolve(schema.get("items"))
        if _find_type(inner) == "object":
            self.used.discard(role)
            return [self.fill_object(inner, levels - 1)]
        return [value]

    def _is_group(self, name: str, schema: dict[str, Any]) -> bool:
        if normalize_word(name) not in _GROUPS:
            return False
        inner = self._resolve(schema.get("items")) if _find_type(schema) == "array" else schema
        return _find_type(inner) == "object" and bool(inner.get("properties"))

    def _resolve(self, schema: Any) -> dict[str, Any]:
        """Follow a reference, and take the first alternative that is not null."""
        for _ in range(_MAX_LEVELS):
            if not isinstance(schema, dict):
                return {}
            reference = schema.get("$ref")
            options = schema.get("anyOf") or schema.get("oneOf")
            if isinstance(reference, str):
                schema = self._find_reference(reference)
            elif isinstance(options, list) and options:
                rest = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf"}}
                chosen: Any = next((option for option in options if not _is_null_type(option)), {})
                schema = {**chosen, **rest} if isinstance(chosen, dict) else {}
            else:
                return schema
        return {}

    def _find_reference(self, reference: str) -> Any:
        place: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            place = place.get(part) if isinstance(place, dict) else None
        return place


def _is_null_type(schema: object) -> bool:
    return isinstance(schema, dict) and _find_type(schema) == "null"


def _find_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    if kind is None and "properties" in schema:
        return "object"
    # One dialect writes types in capitals.
    return str(kind).lower()


def _fill_number(schema: Mapping[str, Any], name: str) -> int:
    least = schema.get("minimum")
    word = normalize_word(name)
    if "timeout" in word:
        return _TIMEOUT_SECONDS * (1000 if word.endswith("ms") else 1)
    return int(least) if isinstance(least, int | float) else 0


_Family: TypeAlias = Literal["shell", "read", "edit", "write", "create", "finish"]
"""What a tool is for."""

_EDITORS: Final = ("fileeditor", "strreplaceeditor", "strreplacebasededittool", "texteditor", "editor")

_FAMILIES: Final[Mapping[_Family, tuple[str, ...]]] = {
    "shell": (
        "bash",
        "shell",
        "execcommand",
        "runshellcommand",
        "runcommands",
        "runcommand",
        "runterminalcommand",
        "runterminalcmd",
        "runinterminal",
        "terminal",
        "executebash",
        "executecommand",
        "shellcommand",
        "localshell",
        "exec",
    ),
    "read": ("read", "readfile", "readfiles", "view", "viewfile", "openfile", "readtextfile", *_EDITORS),
    "edit": (
        "edit",
        "replace",
        "editfile",
        "searchreplace",
        "strreplace",
        "strreplacefile",
        "replaceinfile",
        "replacestringinfile",
        "singlefindandreplace",
        "multiedit",
        *_EDITORS,
    ),
    "write": ("write", "writefile", "writetofile", *_EDITORS),
    "create": ("create", "createfile", "createnewfile", *_EDITORS),
    "finish": (
        "finish",
        "submit",
        "attemptcompletion",
        "taskcomplete",
        "submitandexit",
        "completetask",
        "done",
    ),
}

_NEEDS: Final[Mapping[_Family, frozenset[_Role]]] = {
    "shell": frozenset({"command"}),
    "read": frozenset({"path"}),
    "edit": frozenset({"path", "old", "new"}),
    "write": frozenset({"path", "content"}),
    "create": frozenset({"path", "content"}),
    "finish": frozenset(),
}
"""What has to find a place in the arguments; a tool that has none for it is not the right one."""


def find_call(tools: Mapping[str, bytes], family: _Family, values: Values) -> ToolCall | None:
    """A call of the first tool of a family that takes what is to be said; None if there is none.

    Args:
        tools: What the request offers, by name.
        family: What is to be done.
        values: What goes into the arguments.
    """
    known = {_normalize_name(name): name for name in reversed(list(tools))}
    for word in _FAMILIES[family]:
        name = known.get(word)
        if name is None:
            continue
        filled = fill_arguments(tools[name], values)
        if filled.used >= _NEEDS[family] and not filled.is_elsewhere:
            return ToolCall(id=None, name=name, arguments=msgspec.json.encode(filled.arguments))
    return None


def _normalize_name(name: str) -> str:
    """Without the group that some agents put in front: `developer__shell`, `file_system.bash`."""
    return normalize_word(name.rpartition("__")[2].rpartition(".")[2])
