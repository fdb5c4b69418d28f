"""The manifest on disk: written once, read with every problem named."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec
import orjson

from repotrial._core.canonical import canonical_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.redaction import NO_REDACTION, Redactor
from repotrial.trace._files import open_regular, write_once
from repotrial.trace._manifest import (
    MANIFEST_SCHEMA,
    MANIFEST_SCHEMAS,
    Manifest,
    build_comparability_class,
)

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
_MAX_LISTED_PROBLEMS = 50
_MAX_SHOWN_CHARACTERS = 80


MANIFEST_INVALID = ErrorCode(
    "manifest-invalid",
    EvidenceError,
    "A manifest does not have the form that its schema asks for; the message lists every problem.",
    hint="the file was edited or is not a manifest; take it from the original run directory",
)
MANIFEST_VERSION = ErrorCode(
    "manifest-version",
    EvidenceError,
    "A manifest has a schema version that this release does not know.",
    hint="read it with the release that wrote it, or with a newer one",
)
MANIFEST_EXISTS = ErrorCode(
    "manifest-exists",
    UsageError,
    "A run directory already has a manifest; it is written once.",
    hint="start a new run in a new directory",
)


def write_manifest(path: Path, manifest: Manifest, *, redactor: Redactor = NO_REDACTION) -> bytes:
    """Check the manifest, write it in canonical form, and return the bytes.

    Raises:
        MANIFEST_INVALID: a field does not have its type, the comparability class is another, or a
            value is a secret.
        MANIFEST_EXISTS: there is one already.
        TRACE_WRITE: the machine does not let us write.
    """
    try:
        data = _render(manifest)
    except UsageError as error:  # `not-canonical`
        raise MANIFEST_INVALID.error(f"{path.name}: {error.message}") from error
    _parse_form(data, path.name)
    rules = sorted({span.rule for span in redactor.redact(data.decode()).spans})
    if rules:  # C3: secrets by name only
        raise MANIFEST_INVALID.error(
            f"{path.name}: expected no secret in a manifest, found: {', '.join(rules)}",
            hint="declare the variable as a secret, by name",
        )
    try:
        write_once(path, data, is_durable=False)  # sealing makes it durable
    except FileExistsError as error:
        raise MANIFEST_EXISTS.error(f"{path}: expected no manifest yet, found one") from error
    return data


def load_manifest(path: Path) -> Manifest:
    """Read a manifest, own or foreign.

    Raises:
        TRACE_UNREADABLE: it is missing or not a plain file.
        MANIFEST_INVALID: it does not hold to its schema; all problems are listed.
        MANIFEST_VERSION: its schema is of another major version.
    """
    with open_regular(path) as stream:
        data = stream.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise MANIFEST_INVALID.error(f"{path}: expected at most {MAX_MANIFEST_BYTES} bytes, found more")
    return parse_manifest(data, name=str(path))


def parse_manifest(data: bytes, *, name: str = "manifest.json") -> Manifest:
    """The same, from bytes; `name` is what messages call them."""
    manifest = _parse_form(data, name)
    # Doubled keys, other spellings of numbers and defaults left out all end here.
    if _render(manifest) != data:
        raise MANIFEST_INVALID.error(
            f"{name}: expected canonical JSON, found the same content in another form"
        )
    return manifest


def _parse_form(data: bytes, name: str) -> Manifest:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MANIFEST_INVALID.error(f"{name}: expected JSON, found: {error}") from error
    _check_version(raw, name)
    try:
        manifest = msgspec.convert(raw, Manifest)
    except msgspec.ValidationError as error:
        raise _invalid(name, list(_iter_problems(raw, Manifest, ""))) from error
    if problems := list(_iter_version_problems(manifest, manifest.schema == MANIFEST_SCHEMA, "")):
        raise _invalid(name, problems)
    expected = build_comparability_class(manifest, schema=manifest.schema)
    if manifest.comparability_class != expected:
        raise MANIFEST_INVALID.error(
            f"{name}: comparability_class: expected {expected}, found {manifest.comparability_class}"
        )
    return manifest


def _iter_version_problems(value: Any, has_all: bool, where: str) -> Iterator[str]:  # noqa: FBT001
    """Fields that came with version 2: it has all of them, and version 1 has none (P2)."""
    if isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _iter_version_problems(item, has_all, f"{where}[{index}]")
    if not isinstance(value, msgspec.Struct):
        return
    for field in msgspec.structs.fields(value):
        found, place = getattr(value, field.name), _join(where, field.name)
        if found is msgspec.UNSET and has_all:
            yield f"{place}: expected a value, found none"
        elif not has_all and field.default is msgspec.UNSET and found is not msgspec.UNSET:
            yield f"{place}: expected no such field, found one"
        else:
            yield from _iter_version_problems(found, has_all, place)


def _invalid(name: str, problems: list[str]) -> EvidenceError:
    shown = problems[:_MAX_LISTED_PROBLEMS]
    more = f"\n- and {len(problems) - len(shown)} more" if len(problems) > len(shown) else ""
    listed = "\n".join(f"- {problem}" for problem in shown)
    return MANIFEST_INVALID.error(f"{name}: found {len(problems)} problem(s):\n{listed}{more}")


def _render(manifest: Manifest) -> bytes:
    return canonical_bytes(msgspec.to_builtins(manifest))


def _check_version(raw: object, name: str) -> None:
    if not isinstance(raw, dict):
        raise MANIFEST_INVALID.error(f"{name}: expected a JSON object, found {_json_name(raw)}")
    schema = raw.get("schema")
    family = MANIFEST_SCHEMA.partition("@")[0]
    if not isinstance(schema, str) or schema.partition("@")[0] != family:
        raise MANIFEST_INVALID.error(
            f"{name}: schema: expected {MANIFEST_SCHEMA!r}, found {_shorten(schema)}"
        )
    if schema not in MANIFEST_SCHEMAS:
        raise MANIFEST_VERSION.error(
            f"{name}: schema: expected one of {', '.join(MANIFEST_SCHEMAS)}, found {_shorten(schema)}"
        )


def _iter_problems(raw: Any, expected: Any, where: str) -> Iterator[str]:
    """All problems, not only the first: descend where the shape allows it, convert where it does not."""
    inner = _alternative(raw, expected)
    found = False
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(raw, dict):
        children = _iter_struct_problems(raw, inner, where)
    elif get_origin(inner) is tuple and isinstance(raw, list):
        item_type = get_args(inner)[0]
        children = (p for i, item in enumerate(raw) for p in _iter_problems(item, item_type, f"{where}[{i}]"))
    elif get_origin(inner) is dict and isinstance(raw, dict):
        item_type = get_args(inner)[1]
        children = (p for key, item in raw.items() for p in _iter_problems(item, item_type, f"{where}.{key}"))
    else:
        children = iter(())
    for problem in children:
        found = True
        yield problem
    if not found:
        try:
            msgspec.convert(raw, expected)
        except msgspec.ValidationError as error:
            yield f"{where or '$'}: {error}"


def _iter_struct_problems(raw: dict[str, Any], struct: type[msgspec.Struct], where: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key in raw:
        if key not in fields and key != struct.__struct_config__.tag_field:
            yield f"{_join(where, key)}: expected no such field, found one"
    for key, field in fields.items():
        if key in raw:
            yield from _iter_problems(raw[key], field.type, _join(where, key))
        elif field.required:
            yield f"{_join(where, key)}: expected a value, found none"


def _alternative(raw: Any, expected: Any) -> Any:
    """Of a union, the member that the value seems to be; otherwise the type itself."""
    if get_origin(expected) not in {Union, types.UnionType}:
        return expected
    for member in get_args(expected):
        if isinstance(member, type) and issubclass(member, msgspec.Struct):
            config = member.__struct_config__
            if (
                isinstance(raw, dict)
                and config.tag_field is not None
                and raw.get(config.tag_field) == config.tag
            ):
                return member
        elif get_origin(member) is tuple and isinstance(raw, list):
            return member
    return expected


def _join(where: str, key: str) -> str:
    key = key if key.isidentifier() and len(key) <= _MAX_SHOWN_CHARACTERS else _shorten(key)
    return f"{where}.{key}" if where else key


def _shorten(value: object) -> str:
    if not isinstance(value, str):  # nested deep enough, it cannot even be shown
        return _json_name(value)
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "…"


def _json_name(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return names.get(type(value), "a number")
