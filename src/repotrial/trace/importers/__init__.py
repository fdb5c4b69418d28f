"""Foreign transcripts in one form: what agents write about themselves, read without believing it.

`load_transcript` and `import_transcript` read a file; `compare_with_gateway` holds it against the wire.
"""

from __future__ import annotations

from repotrial.trace.importers._arguments import Defaults, digest_arguments, find_defaults
from repotrial.trace.importers._compare import (
    CallDiffers,
    CallNotInTranscript,
    CallNotOnWire,
    CostDiffers,
    Disagreement,
    GatewayCall,
    TokensDiffer,
    compare_with_gateway,
)
from repotrial.trace.importers._detect import HEAD_BYTES, detect_format
from repotrial.trace.importers._lines import ImportLimits, TranscriptUnreadableError
from repotrial.trace.importers._model import (
    Arguments,
    ImportedCall,
    ImportedMessage,
    ImportedTranscript,
    MessageUsage,
    ReportedTotals,
    SkippedEntries,
    SkipReason,
    StatedOutcome,
    ToolOutput,
)
from repotrial.trace.importers._registry import (
    IMPORTERS,
    Importer,
    UnknownTranscriptFormatError,
    import_transcript,
    load_transcript,
)

__all__ = [
    "HEAD_BYTES",
    "IMPORTERS",
    "Arguments",
    "CallDiffers",
    "CallNotInTranscript",
    "CallNotOnWire",
    "CostDiffers",
    "Defaults",
    "Disagreement",
    "GatewayCall",
    "ImportLimits",
    "ImportedCall",
    "ImportedMessage",
    "ImportedTranscript",
    "Importer",
    "MessageUsage",
    "ReportedTotals",
    "SkipReason",
    "SkippedEntries",
    "StatedOutcome",
    "TokensDiffer",
    "ToolOutput",
    "TranscriptUnreadableError",
    "UnknownTranscriptFormatError",
    "compare_with_gateway",
    "detect_format",
    "digest_arguments",
    "find_defaults",
    "import_transcript",
    "load_transcript",
]
