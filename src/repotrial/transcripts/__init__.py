"""Other agents' transcripts as typed tool calls."""

from __future__ import annotations

from repotrial.transcripts._compare import GatewayCall, compare_with_gateway
from repotrial.transcripts._model import Arguments, ImportedTranscript, ToolOutput
from repotrial.transcripts._registry import IMPORTERS, import_transcript, load_transcript

__all__ = [
    "IMPORTERS",
    "Arguments",
    "GatewayCall",
    "ImportedTranscript",
    "ToolOutput",
    "compare_with_gateway",
    "import_transcript",
    "load_transcript",
]
