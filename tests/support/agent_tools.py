"""What agents offer a model: names and schemas of their tools, as far as a script needs them."""

from __future__ import annotations

from typing import Any, Final

from repotrial.wire import Dialect

Tools = dict[str, dict[str, Any]]


def _schema(*required: str, optional: tuple[str, ...] = (), **special: dict[str, Any]) -> dict[str, Any]:
    names = (*required, *optional)
    properties = {name: special.get(name, {"type": "string"}) for name in names}
    return {"type": "object", "properties": properties, "required": list(required)}


_LIST_OF_TEXT: Final = {"type": "array", "items": {"type": "string"}}
_RISK: Final = {"type": "string", "enum": ["UNKNOWN", "LOW", "MEDIUM", "HIGH"]}
_EDIT_COMMANDS: Final = {
    "type": "string",
    "enum": ["view", "create", "str_replace", "insert", "undo_edit"],
}
_FLAG: Final = {"type": "boolean"}
_PI_EDITS: Final = {
    "type": "array",
    "items": {**_schema("oldText", "newText"), "additionalProperties": False},
}
_CHANGES: Final = {
    "type": "array",
    "minItems": 1,
    "items": {"$ref": "#/$defs/Change"},
}
_CHANGE: Final = _schema("oldString", "newString", optional=("replaceAll",), replaceAll=_FLAG)

AGENT_TOOLS: Final[dict[str, tuple[Dialect, Tools]]] = {
    "claude-code": (
        "anthropic-messages",
        {
            "Bash": _schema("command", optional=("description", "timeout"), timeout={"type": "number"}),
            "Read": _schema("file_path", optional=("offset", "limit")),
            "Edit": _schema("file_path", "old_string", "new_string", optional=("replace_all",)),
            "Write": _schema("file_path", "content"),
            "TodoWrite": _schema("todos", todos={"type": "array", "items": {"type": "object"}}),
        },
    ),
    "codex": (
        "openai-responses",
        {
            "exec_command": _schema("cmd", optional=("login", "workdir", "yield_time_ms")),
            "write_stdin": _schema("session_id", optional=("chars",), session_id={"type": "number"}),
            "view_image": _schema("path"),
        },
    ),
    "gemini-cli": (
        "gemini",
        {
            "list_directory": _schema("dir_path"),
            "read_file": _schema("file_path"),
            "replace": _schema("file_path", "instruction", "old_string", "new_string"),
            "write_file": _schema("file_path", "content"),
            "run_shell_command": _schema("command", optional=("description",)),
        },
    ),
    "qwen-code": (
        "openai-chat",
        {
            "run_shell_command": _schema("command", "is_background", is_background=_FLAG),
            "read_file": _schema("absolute_path"),
            "edit": _schema("file_path", "old_string", "new_string"),
        },
    ),
    "opencode": (
        "openai-chat",
        {
            "bash": _schema("command", "description"),
            "read": _schema("filePath"),
            "edit": _schema("filePath", "oldString", "newString"),
            "write": _schema("content", "filePath"),
        },
    ),
    "pi": (
        "openai-chat",
        {
            "read": _schema("path"),
            "bash": _schema("command", optional=("timeout",)),
            "edit": _schema("path", "edits", edits=_PI_EDITS),
            "write": _schema("path", "content"),
        },
    ),
    "copilot": (
        "openai-chat",
        {
            "bash": _schema("command", "description"),
            "view": _schema("path", optional=("view_range",)),
            "edit": _schema("path", optional=("old_str", "new_str")),
            "create": _schema("path", "file_text"),
        },
    ),
    "cline": (
        "openai-chat",
        {
            "run_commands": _schema("commands", commands=_LIST_OF_TEXT),
            "read_files": _schema("files", files={"type": "array", "items": _schema("path")}),
            "editor": _schema("path", "new_text", optional=("old_text",)),
        },
    ),
    "goose": (
        "openai-chat",
        {
            "shell": _schema("command", optional=("timeout_secs",)),
            "edit": _schema("path", "before", "after"),
            "write": _schema("path", "content"),
            "tree": _schema("path"),
        },
    ),
    "mini-swe-agent": ("openai-chat", {"bash": _schema("command")}),
    "openhands": (
        "openai-chat",
        {
            "terminal": _schema("command", "security_risk", security_risk=_RISK),
            "file_editor": _schema(
                "command",
                "path",
                "security_risk",
                optional=("old_str", "new_str", "file_text"),
                command=_EDIT_COMMANDS,
                security_risk=_RISK,
            ),
            "finish": _schema("message"),
        },
    ),
    "vibe": (
        "openai-chat",
        {
            "bash": _schema("command"),
            "read_file": _schema("filePath"),
            "search_replace": {
                **_schema("filePath", "changes", changes=_CHANGES),
                "$defs": {"Change": _CHANGE},
            },
        },
    ),
    "swe-agent": (
        "openai-chat",
        {
            "bash": _schema("command"),
            "str_replace_editor": _schema(
                "command", "path", optional=("old_str", "new_str", "file_text"), command=_EDIT_COMMANDS
            ),
            "submit": {"type": "object", "properties": {}},
        },
    ),
    "continue": (
        "openai-chat",
        {
            "Read": _schema("filepath"),
            "Edit": _schema("file_path", "old_string", "new_string"),
            "Bash": _schema("command"),
        },
    ),
    "local-shell": ("openai-chat", {"shell": _schema("command", command=_LIST_OF_TEXT)}),
    "grouped": ("openai-chat", {"developer__shell": _schema("command")}),
}
"""By agent: the dialect that it speaks, and its tools."""
