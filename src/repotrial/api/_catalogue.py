"""What is published about RepoTrial itself: schemas and errors."""

from __future__ import annotations

from typing import Any

import msgspec

from repotrial._core.errors import ERROR_CODES, ErrorCode, RepoTrialError, UsageError
from repotrial._core.lazy import load_all
from repotrial._core.schema import build_document_schema
from repotrial.agents import build_adapter_schema
from repotrial.analysis import Analysis
from repotrial.authoring import build_certificate_schema
from repotrial.contract import build_schemas
from repotrial.gateway import build_script_schema
from repotrial.retrieval import build_retrieval_schemas
from repotrial.score import build_score_schemas
from repotrial.trace import Manifest, build_trace_schema

UNKNOWN_SCHEMA = ErrorCode(
    "unknown-schema",
    UsageError,
    "There is no published schema of that name.",
    hint="`repotrial contract schema --help` names them",
)
UNKNOWN_ERROR_CODE = ErrorCode(
    "unknown-error-code",
    UsageError,
    "There is no error of that code.",
    hint="`repotrial error list` shows all codes",
)


class ErrorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the error catalogue."""

    code: str
    blame: str
    exit_code: int
    description: str
    hint: str

    @property
    def summary(self) -> str:
        return self.description.partition("\n\n")[0]


def list_schemas() -> list[str]:
    """The documents that have a published schema."""
    return sorted(_build_schemas())


def build_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document.

    Raises:
        UNKNOWN_SCHEMA: no document has that name.
    """
    schemas = _build_schemas()
    if name not in schemas:
        raise UNKNOWN_SCHEMA.error(f"expected one of {', '.join(sorted(schemas))}, found {name!r}")
    return schemas[name]


def list_errors() -> list[ErrorEntry]:
    """Every error that RepoTrial raises on purpose, by code."""
    load_all("repotrial")
    return [_describe_error(code) for _, code in sorted(ERROR_CODES.items())]


def find_error(code: str) -> ErrorEntry:
    load_all("repotrial")
    if code not in ERROR_CODES:
        raise UNKNOWN_ERROR_CODE.error(f"expected a known error code, found {code!r}")
    return _describe_error(ERROR_CODES[code])


def _describe_error(code: ErrorCode[RepoTrialError]) -> ErrorEntry:
    return ErrorEntry(
        code=str(code),
        blame=code.kind.blame.value,
        exit_code=int(code.kind.exit_code),
        description=code.description,
        hint=code.hint,
    )


def _build_schemas() -> dict[str, dict[str, Any]]:
    schemas = {
        **build_schemas(),
        "agent.schema.json": build_adapter_schema(),
        "analysis.schema.json": build_document_schema(Analysis, "analysis@1", title="analysis.json"),
        "certificate.schema.json": build_certificate_schema(),
        "manifest.schema.json": build_document_schema(Manifest, "manifest@1", title="manifest.json"),
        "script.schema.json": build_script_schema(),
        "trace.schema.json": build_trace_schema(),
        **build_score_schemas(),
        **build_retrieval_schemas(),
    }
    return {file.removesuffix(".schema.json"): schema for file, schema in schemas.items()}
