"""Any TOML document of ours, read as a contract is: all problems together, each with its place."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from repotrial.contract._convert import convert_collecting
from repotrial.contract._finding import Finding, render_field
from repotrial.contract._major import check_major
from repotrial.contract._problems import Problem
from repotrial.contract._text import decode_text, parse_toml
from repotrial.contract._toml import LineIndex

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
