"""Any TOML document of ours, read as a contract is: all problems together, each with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from repotrial.contract._convert import convert_collecting
from repotrial.contract._problems import Finding, Problem, quote, render_field
from repotrial.contract._text import LineIndex, decode_text, parse_toml

_SCHEMA = re.compile(r"(?P<family>[a-z/]+)@(?P<major>[0-9]{1,9})(?:\.(?P<minor>[0-9]{1,9}))?")
_KNOWN_MINOR = 0


def check_major(value: Mapping[str, object], *, known: str) -> Finding | None:
    """Refuse a document of another family or major: nothing else that could be said about it is certain."""
    schema = value.get("schema")
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if match is None or f"{match['family']}@{int(match['major'])}" == known:
        return None
    family = known.partition("@")[0]
    newer = match["family"] == family and int(match["major"]) > int(known.partition("@")[2])
    return Finding(
        code="schema-unknown",
        place=("schema",),
        message=f"expected {quote(known)}, found {quote(str(schema))}: this version reads {known} only",
        hint="use a newer RepoTrial" if newer else f"write schema = {quote(known)}",
    )


def newer_minor(value: Mapping[str, object]) -> str | None:
    """The document's schema, where it is of a minor that this version does not know yet."""
    schema = value.get("schema")
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    return str(schema) if match is not None and int(match["minor"] or 0) > _KNOWN_MINOR else None


DocumentT = TypeVar("DocumentT", bound=msgspec.Struct)


def check_document(
    data: bytes, *, file: str, model: type[DocumentT], schema: str
) -> tuple[DocumentT | None, list[Problem]]:
    """Read one document and list everything that is wrong with it; bad content never raises.

    Args:
        data: The bytes of the file.
        file: Its name, for messages.
        model: What it is to be.
        schema: The only value of its `schema` that is read.

    Returns:
        The document, where there are no problems; and all problems, by line.
    """
    text = decode_text(data, file=file)
    if isinstance(text, Problem):
        return None, [text]
    value = parse_toml(text, file=file)
    if isinstance(value, Problem):
        return None, [value]
    index = LineIndex(data)
    refusal = check_major(value, known=schema)
    if refusal is not None:
        return None, [_locate(refusal, index, file)]
    conversion = convert_collecting(value, model)
    problems = [_locate(finding, index, file) for finding in conversion.findings]
    return conversion.document, sorted(problems, key=lambda problem: problem.line or 0)


def _locate(finding: Finding, index: LineIndex, file: str) -> Problem:
    field = render_field(finding.place)
    return Problem(
        code=finding.code,
        severity="error",
        file=file,
        line=index.locate(field),
        field=field,
        message=finding.message,
        hint=finding.hint,
    )
