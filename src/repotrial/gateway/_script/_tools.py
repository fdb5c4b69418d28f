"""Which of an agent's tools does what, by the names that agents give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.gateway._model import ToolCall
from repotrial.gateway._script._arguments import Role, Values, fill_arguments, normalize_word

Family: TypeAlias = Literal["shell", "read", "edit", "write", "create", "finish"]
"""What a tool is for."""

_EDITORS: Final = ("fileeditor", "strreplaceeditor", "strreplacebasededittool", "texteditor", "editor")

_FAMILIES: Final[Mapping[Family, tuple[str, ...]]] = {
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

_NEEDS: Final[Mapping[Family, frozenset[Role]]] = {
    "shell": frozenset({"command"}),
    "read": frozenset({"path"}),
    "edit": frozenset({"path", "old", "new"}),
    "write": frozenset({"path", "content"}),
    "create": frozenset({"path", "content"}),
    "finish": frozenset(),
}
"""What has to find a place in the arguments; a tool that has none for it is not the right one."""


def find_call(tools: Mapping[str, bytes], family: Family, values: Values) -> ToolCall | None:
    """A call of the first tool of a family that takes what is to be said; null where there is none.

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
