"""Document types: JSON Schemas built from the models, and types resolved before threads share them.

Draft 2020-12. Descriptions are the docstrings under the fields.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as mi

from repotrial._core.python_source import parse_python


def resolve_documents() -> None:
    """Let msgspec work out every document type of ours that is loaded by now.

    It does so when a type is first decoded. When two threads do that at one time, one of them reads what the
    other has half made, and the interpreter crashes (msgspec 0.22).
    """
    pending: list[type[msgspec.Struct]] = [msgspec.Struct]
    seen: set[type[msgspec.Struct]] = set()
    while pending:
        kind = pending.pop()
        if kind in seen:
            continue
        seen.add(kind)
        pending += kind.__subclasses__()
        if kind.__module__.startswith("repotrial."):
            # What cannot be resolved is never decoded: its annotations serve type checkers alone.
            with contextlib.suppress(NameError, TypeError):
                msgspec.json.Decoder(kind)


DIALECT = "https://json-schema.org/draft/2020-12/schema"

_DECIMAL: dict[str, Any] = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^-?[0-9]{1,28}(\.[0-9]{1,28})?$"}]
}


def build_document_schema(model: type[msgspec.Struct], name: str, *, title: str) -> dict[str, Any]:
    """The schema of one document.

    Args:
        model: The document's root.
        name: What its schema string says behind `repotrial/`, such as `contract@1`.
        title: How people call it.
    """
    (root,), definitions = build_schema_parts([model])
    return {
        "$schema": DIALECT,
        "$id": f"urn:repotrial:schema:{name}",
        "title": title,
        **root,
        "$defs": definitions,
    }


def build_schema_parts(
    models: Sequence[type[msgspec.Struct]],
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """A reference for each model, and the definitions of everything that they are made of, by name."""
    references, definitions = msgspec.json.schema_components(models, ref_template="#/$defs/{name}")
    for model in models:
        for struct in _iter_structs(mi.type_info(model)):
            _describe(definitions[struct.cls.__name__], struct)
    tidied: dict[str, dict[str, Any]] = rewrite_schema(dict(sorted(definitions.items())), _tidy)
    return list(references), tidied


def rewrite_schema(value: Any, rule: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Apply a rule to every object of a schema, inner ones first."""
    match value:
        case dict():
            return rule({key: rewrite_schema(item, rule) for key, item in value.items()})
        case list() | tuple():
            return [rewrite_schema(item, rule) for item in value]
        case _:
            return value


def strip_metadata(info: mi.Type) -> mi.Type:
    """The type itself, without what is annotated on it."""
    while isinstance(info, mi.Metadata):
        info = info.type
    return info


def _iter_structs(info: mi.Type, seen: set[type] | None = None) -> Iterator[mi.StructType]:
    """Every table of a document once, outer ones first."""
    seen = set() if seen is None else seen
    match strip_metadata(info):
        case mi.StructType() as struct:
            if struct.cls in seen:
                return
            seen.add(struct.cls)
            yield struct
            for field in struct.fields:
                yield from _iter_structs(field.type, seen)
        case mi.UnionType(types=types):
            for option in types:
                yield from _iter_structs(option, seen)
        case mi.VarTupleType(item_type=item) | mi.DictType(value_type=item):
            yield from _iter_structs(item, seen)
        case _:
            return


def _describe(definition: dict[str, Any], struct: mi.StructType) -> None:
    words: dict[str, str] = {}
    for owner in reversed(struct.cls.__mro__):
        if issubclass(owner, msgspec.Struct) and owner is not msgspec.Struct:
            words |= _field_docstrings(owner)
    for field in struct.fields:
        if field.name in words:
            definition["properties"][field.encode_name]["description"] = words[field.name]


@cache
def _field_docstrings(model: type) -> dict[str, str]:
    """The string under each field of a class, which Python itself throws away."""
    (definition,) = parse_python(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    words: dict[str, str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                words[name] = " ".join(inspect.cleandoc(text).split())
            case _:
                continue
    return words


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("format") == "decimal":
        return {**_DECIMAL, **{key: schema[key] for key in ("description", "default") if key in schema}}
    schema.pop("discriminator", None)  # OpenAPI's word; the tag in the alternatives says it already
    if schema.get("required") == []:
        del schema["required"]
    return schema
