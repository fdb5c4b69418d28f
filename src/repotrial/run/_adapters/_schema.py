"""The JSON Schema of an adapter, for editors."""

from __future__ import annotations

from typing import Any

from repotrial._core.schema import build_document_schema
from repotrial.run._adapters._model import Adapter


def build_adapter_schema() -> dict[str, Any]:
    """The schema of `repotrial/agent@1`."""
    return build_document_schema(Adapter, "agent@1", title="Adapter of an agent")
