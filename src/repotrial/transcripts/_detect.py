"""Which format a file has, from its first bytes and its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from repotrial.transcripts._values import Fields, as_object, as_text, read_path

HEAD_BYTES = 256 * 1024
"""How much of a file is enough."""

_MAX_LINES = 50


_DOCUMENT_MARKS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("atif", (b'"schema_version"', b'"ATIF-v')),
    ("mini-swe-agent", (b'"mini_version"',)),
    ("mini-swe-agent", (b'"trajectory_format"', b'"mini-swe-agent')),
    ("swe-agent", (b'"trajectory"', b'"observation"')),
    ("vibe-export", (b'"vibe_version"',)),
    ("gemini-session", (b'"projectHash"', b'"messages"')),
    ("cline-messages", (b'"messages"', b'"sessionId"', b'"origin"')),
    ("openhands-events", (b'"execution_status"',)),
    ("openhands-events", (b'"usage_to_metrics"',)),
    ("continue-final", (b'"response"', b'"status"')),
    ("atif", (b'"steps"', b'"tool_calls"')),
    ("atif", (b'"steps"', b'"step_id"')),
)
_PI_EVENTS = frozenset({"agent_end", "agent_start", "message_end", "message_start", "turn_end", "turn_start"})
_NAMES = {
    "trajectory.json": "atif",
    "base_state.json": "openhands-events",
    "export.json": "vibe-export",
}
_ENDINGS = {
    ".messages.json": "cline-messages",
    ".traj.json": "mini-swe-agent",
    ".traj": "swe-agent",
    ".chat.md": "aider-chat",
    ".aider.chat.history.md": "aider-chat",
}


def detect_format(head: bytes, name: str) -> str | None:
    """The importer for a file that begins with `head`; None if nothing fits."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"# aider chat started at"):
        return "aider-chat"
    found = _detect_entries(list(_iter_objects(head.split(b"\n")[:_MAX_LINES])))
    if found is None and text.startswith(b"{"):
        found = _detect_entries(list(_iter_objects([text]))) or _detect_document(head)
    if (
        found == "claude-code-stream" and "qwen" in name.lower()
    ):  # the same form, told apart by its first line
        return "qwen-stream"
    if found is not None:
        return found
    if name in _NAMES:
        return _NAMES[name]
    return next((format_ for ending, format_ in _ENDINGS.items() if name.endswith(ending)), None)


def _detect_entries(entries: list[Fields]) -> str | None:
    return next(filter(None, (_detect_entry(entry, entries) for entry in entries)), None)


def _detect_document(head: bytes) -> str | None:
    """A document whose end is not in sight is known by words in it."""
    fitting = (format_ for format_, marks in _DOCUMENT_MARKS if all(mark in head for mark in marks))
    return next(fitting, None)


def _iter_objects(texts: list[bytes]) -> Iterator[Fields]:
    for text in texts:
        if not text.lstrip().startswith(b"{"):
            continue
        try:
            entry = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def _detect_entry(entry: Fields, entries: list[Fields]) -> str | None:
    for format_, fits in _RULES:
        if fits(entry):
            if format_ == "pi-session":  # both forms begin alike
                kinds = {as_text(each.get("type")) for each in entries}
                return "pi-events" if kinds & _PI_EVENTS else format_
            return format_
    return None


def _has(entry: Fields, *keys: str) -> bool:
    return all(key in entry for key in keys)


def _kind(entry: Fields) -> str:
    return as_text(entry.get("type")) or ""


def _is_claude_session(entry: Fields) -> bool:
    if _has(entry, "sessionId") and _kind(entry) in ("queue-operation", "ai-title", "last-prompt"):
        return True
    return _has(entry, "parentUuid", "uuid") and not _is_qwen_session(entry)


def _is_qwen_session(entry: Fields) -> bool:
    is_message = isinstance(read_path(entry, "message", "parts"), list)
    return _has(entry, "uuid", "parentUuid", "sessionId") and (is_message or _has(entry, "systemPayload"))


def _is_claude_stream(entry: Fields) -> bool:
    if _kind(entry) in ("assistant", "user"):
        return isinstance(as_object(entry.get("message")).get("content"), list | str)
    return _kind(entry) in ("system", "result") and _has(entry, "subtype")


def _is_gemini_stream(entry: Fields) -> bool:
    kind = _kind(entry)
    return (
        (kind == "init" and _has(entry, "session_id", "model"))
        or (kind in ("tool_use", "tool_result") and _has(entry, "tool_id"))
        or (kind == "result" and _has(entry, "stats"))
    )


def _is_codex_exec(entry: Fields) -> bool:
    if _kind(entry).startswith(("thread.", "turn.", "item.")):
        return True
    return _kind(entry) == "error" and isinstance(entry.get("message"), str)


def _is_goose(entry: Fields) -> bool:
    if _kind(entry) == "complete":
        return _has(entry, "total_tokens")
    return _kind(entry) == "message" and set(entry) == {"type", "message"}


def _is_pi(entry: Fields) -> bool:
    kind = _kind(entry)
    return (
        (kind == "session" and _has(entry, "id", "cwd"))
        or (kind == "message" and _has(entry, "parentId", "message"))
        or kind in ("message_end", "turn_end", "agent_end")
    )


def _is_openhands(entry: Fields) -> bool:
    return _has(entry, "execution_status") or _has(entry, "kind", "source", "timestamp")


def _is_copilot(entry: Fields) -> bool:
    return _has(entry, "data", "parentId", "type") or _has(entry, "type", "exitCode")


def _is_mini(entry: Fields) -> bool:
    return _has(entry, "trajectory_format") or (
        isinstance(entry.get("info"), dict) and _has(entry, "messages")
    )


_RULES: tuple[tuple[str, Callable[[Fields], bool]], ...] = (
    ("atif", lambda e: _has(e, "steps") and not _has(e, "outcome")),
    ("mini-swe-agent", _is_mini),
    ("swe-agent", lambda e: _has(e, "trajectory", "info")),
    ("vibe-export", lambda e: _has(e, "outcome", "usage")),
    ("cline-messages", lambda e: _has(e, "messages", "origin")),
    ("openhands-events", _is_openhands),
    ("continue-final", lambda e: set(e) == {"response", "status"}),
    ("copilot-events", lambda e: _kind(e) == "session.start" and _has(e, "data")),
    ("copilot-stream", _is_copilot),
    ("cline-run", lambda e: _has(e, "ts") and _kind(e) in ("hook_event", "agent_event", "run_result")),
    ("codex-rollout", lambda e: _has(e, "timestamp", "type", "payload")),
    ("codex-exec", _is_codex_exec),
    ("gemini-stream", _is_gemini_stream),
    ("gemini-session", lambda e: _has(e, "sessionId", "projectHash") or _has(e, "$set")),
    ("goose-stream", _is_goose),
    ("opencode-run", lambda e: _has(e, "sessionID", "type")),
    ("pi-session", _is_pi),
    ("qwen-stream", lambda e: _has(e, "qwen_code_version")),
    ("qwen-session", _is_qwen_session),
    ("claude-code-session", _is_claude_session),
    ("claude-code-stream", _is_claude_stream),
    ("vibe-stream", lambda e: _has(e, "sessionId", "turnId", "type")),
)
"""In order: narrower rules first."""
