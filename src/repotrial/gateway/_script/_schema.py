"""The JSON Schema of a script, for editors."""

from __future__ import annotations

from typing import Any

from repotrial._core.schema import build_document_schema
from repotrial.gateway._script._model import Script


def build_script_schema() -> dict[str, Any]:
    """The schema of `repotrial/script@1`."""
    return build_document_schema(Script, "script@1", title="Script of a canned model")
