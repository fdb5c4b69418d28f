"""The `schema` line of a document: which documents this version reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from repotrial.contract._finding import Finding
from repotrial.contract._words import quote

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
