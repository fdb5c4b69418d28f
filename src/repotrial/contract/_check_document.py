"""Any TOML document of ours, read as a contract is: all problems together, each with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from repotrial.contract._convert import convert_collecting
from repotrial.contract._problems import DocumentFinding, Problem, quote
from repotrial.contract._text import LineIndex, decode_text, parse_toml

_SCHEMA = re.compile(r"(?P<family>[a-z/]+)@(?P<major>[0-9]{1,9})(?:\.(?P<minor>[0-9]{1,9}))?")
_KNOWN_MINOR = 0


def check_major(
    value: Mapping[str, object], *, known: str, older: Collection[str] = ()
) -> DocumentFinding | None:
    """Refuse a document of another family or major: nothing else that could be said about it is certain."""
    schema = value.get("schema")
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if match is None or f"{match['family']}@{int(match['major'])}" in {known, *older}:
        return None
    family = known.partition("@")[0]
    read = " and ".join((*older, known))
    newer = match["family"] == family and int(match["major"]) > int(known.partition("@")[2])
    return DocumentFinding(
        code="schema-unknown",
        place=("schema",),
        message=f"expected {quote(known)}, found {quote(str(schema))}: this version reads {read} only",
        hint="use a newer RepoTrial" if newer else f"write schema = {quote(known)}",
    )


def find_major(value: Mapping[str, object]) -> int | None:
    """The major version that a document says it was written for; None if it says none."""
    schema = value.get("schema")
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    return None if match is None else int(match["major"])


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
    locate = LineIndex(data).locate
    refusal = check_major(value, known=schema)
    if refusal is not None:
        return None, [refusal.to_problem(file, locate=locate)]
    conversion = convert_collecting(value, model)
    problems = [finding.to_problem(file, locate=locate) for finding in conversion.findings]
    return conversion.document, sorted(problems, key=lambda problem: problem.line or 0)
