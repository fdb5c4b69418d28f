"""What is published about RepoTrial itself: schemas and errors."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from repotrial._core.errors import RepoTrialError, UsageError, iter_error_classes
from repotrial._core.lazy import load_all
from repotrial.authoring import build_certificate_schema
from repotrial.contract import build_schemas
from repotrial.gateway import build_script_schema
from repotrial.run import build_adapter_schema
from repotrial.trace import build_manifest_schema, build_trace_schema


class UnknownSchemaError(UsageError):
    """There is no published schema of that name."""

    code = "unknown-schema"
    default_hint = "`repotrial contract schema --help` names them"


class UnknownErrorCodeError(UsageError):
    """There is no error of that code."""

    code = "unknown-error-code"
    default_hint = "`repotrial error list` shows all codes"


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
        UnknownSchemaError: no document has that name.
    """
    schemas = _build_schemas()
    if name not in schemas:
        raise UnknownSchemaError(f"expected one of {', '.join(sorted(schemas))}, found {name!r}")
    return schemas[name]


def list_errors() -> list[ErrorEntry]:
    """Every error that RepoTrial raises on purpose, by code."""
    return [_describe_error(cls) for _, cls in sorted(_find_errors().items())]


def find_error(code: str) -> ErrorEntry:
    cls = _find_errors().get(code)
    if cls is None:
        raise UnknownErrorCodeError(f"expected a known error code, found {code!r}")
    return _describe_error(cls)


def _find_errors() -> dict[str, type[RepoTrialError]]:
    load_all("repotrial")
    return {cls.code: cls for cls in iter_error_classes() if cls.__module__.startswith("repotrial.")}


def _describe_error(cls: type[RepoTrialError]) -> ErrorEntry:
    return ErrorEntry(
        code=cls.code,
        blame=cls.blame.value,
        exit_code=int(cls.exit_code),
        description=inspect.cleandoc(cls.__doc__ or ""),
        hint=cls.default_hint,
    )


def _build_schemas() -> dict[str, dict[str, Any]]:
    schemas = {
        **build_schemas(),
        "agent.schema.json": build_adapter_schema(),
        "certificate.schema.json": build_certificate_schema(),
        "manifest.schema.json": build_manifest_schema(),
        "script.schema.json": build_script_schema(),
        "trace.schema.json": build_trace_schema(),
    }
    return {file.removesuffix(".schema.json"): schema for file, schema in schemas.items()}
