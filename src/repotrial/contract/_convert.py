"""Values of a document held against a model: all findings at once, in words.

msgspec stops at its first error and speaks of patterns; an author wants to see everything that is wrong, said
in terms of the document. So the value is walked along the model's type information here, and msgspec converts
only what was found sound. Depth is bounded by the model, never by the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect as mi

from repotrial._core.schema import strip_metadata
from repotrial.contract._leaves import check_leaf
from repotrial.contract._problems import (
    MAX_FINDINGS,
    Finding,
    Place,
    describe,
    expected_words,
    join_choices,
    nearest,
    quote,
)

_MOST_PLACES = 3
_MOST_KEYS_LISTED = 20
_SURE = 0.75
_LIKELY = 0.5


class KeyMap:
    """In which tables of a document each key is known, as their headers are written."""

    def __init__(self, root: mi.Type) -> None:
        self.tables: dict[str, list[str]] = {}
        self._collect(root, "", is_array=False)

    def _collect(self, info: mi.Type, path: str, *, is_array: bool) -> None:
        match strip_metadata(info):
            case mi.StructType(fields=fields):
                header = (f"[[{path}]]" if is_array else f"[{path}]") if path else "the top level"
                for field in fields:
                    places = self.tables.setdefault(field.encode_name, [])
                    if header not in places:
                        places.append(header)
                    inner = f"{path}.{field.encode_name}" if path else field.encode_name
                    self._collect(field.type, inner, is_array=False)
            case mi.VarTupleType(item_type=item) | mi.ListType(item_type=item):
                self._collect(item, path, is_array=True)
            case mi.UnionType(types=types):
                for option in types:
                    self._collect(option, path, is_array=is_array)
            case _:
                return


def unknown_key_hint(key: str, struct: mi.StructType, keys: KeyMap) -> str:
    """What the author probably meant, or what is known here."""
    known = [field.encode_name for field in struct.fields]
    if struct.tag_field:
        known.append(struct.tag_field)
    renamed = {field.name: field.encode_name for field in struct.fields}
    near = renamed.get(key) or nearest(key, known, at_least=_SURE)
    if near:
        return f"did you mean {quote(near)}?"
    elsewhere = keys.tables.get(key, [])
    if 0 < len(elsewhere) <= _MOST_PLACES:
        return f"{quote(key)} belongs in {join_choices(elsewhere)}"
    likely = nearest(key, known, at_least=_LIKELY)
    if likely:
        return f"did you mean {quote(likely)}?"
    foreign = nearest(key, list(keys.tables), at_least=_SURE)
    if foreign and len(keys.tables[foreign]) == 1:
        return f"did you mean {quote(foreign)} in {keys.tables[foreign][0]}?"
    listed = ", ".join(known[:_MOST_KEYS_LISTED]) + (", …" if len(known) > _MOST_KEYS_LISTED else "")
    return f"known here: {listed}"


DocumentT = TypeVar("DocumentT", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class PathUse:
    """A sound path relative to the contract directory, and what its type says about it."""

    place: Place
    path: str
    extra: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Conversion(Generic[DocumentT]):
    """What a value turned out to be."""

    document: DocumentT | None
    """Left out where there are findings."""
    findings: tuple[Finding, ...]
    paths: tuple[PathUse, ...]
    """Every path beside the contract, defaults included, in the order of the document."""


def convert_collecting(
    value: object, model: type[DocumentT], *, is_json: bool = False
) -> Conversion[DocumentT]:
    """Convert `value`, or say everything that keeps it from being a `model`.

    Hints speak the language of the file: TOML, or JSON if told so.
    """
    walk = _Walk(_type_info(model), is_json=is_json)
    walk.visit(value, walk.root, ())
    document = None
    if not walk.findings:
        try:
            document = msgspec.convert(value, model)
        except msgspec.ValidationError as error:
            # The walk knows every type that the models use; this is the net beneath it.
            walk.report("value-invalid", (), str(error))
    return Conversion(document=document, findings=walk.listed(), paths=tuple(walk.paths))


@lru_cache(maxsize=16)
def _type_info(model: type[msgspec.Struct]) -> mi.Type:
    return mi.type_info(model)


class _Walk:
    def __init__(self, root: mi.Type, *, is_json: bool = False) -> None:
        self.root = root
        self._is_json = is_json
        self.findings: list[Finding] = []
        self.paths: list[PathUse] = []
        self._unlisted = 0

    @cached_property
    def _key_map(self) -> KeyMap:
        return KeyMap(self.root)

    def listed(self) -> tuple[Finding, ...]:
        if not self._unlisted:
            return tuple(self.findings)
        more = Finding(code="more-problems", place=(), message=f"and {self._unlisted} more, not listed here")
        return (*self.findings, more)

    def report(self, code: str, place: Place, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code=code, place=place, message=message, hint=hint))

    def visit(self, value: object, info: mi.Type, place: Place) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            self._unlisted += 1
            return
        match strip_metadata(info):
            case mi.StructType() as struct:
                self._visit_struct(value, struct, place)
            case mi.UnionType() as union:
                self._visit_union(value, union, place)
            case mi.VarTupleType() | mi.ListType() as array:
                self._visit_array(value, array, place)
            case mi.DictType() as table:
                self._visit_table(value, table, place)
            case mi.LiteralType() as literal:
                self._visit_literal(value, literal, place)
            case _:
                self._visit_leaf(value, info, place)

    def _visit_leaf(self, value: object, info: mi.Type, place: Place) -> None:
        fault = check_leaf(value, info)
        if fault is not None:
            self.report("value-invalid", place, fault.message, fault.hint)
        elif isinstance(info, mi.Metadata) and (info.extra or {}).get("tree") == "contract":
            self.paths.append(PathUse(place=place, path=str(value), extra=info.extra or {}))

    def _visit_struct(self, value: object, struct: mi.StructType, place: Place) -> None:
        if not isinstance(value, dict):
            self._mismatch(value, struct, place)
            return
        fields = {field.encode_name: field for field in struct.fields}
        for key in value:
            if key not in fields and key != struct.tag_field:
                self._unknown_key(key, struct, place)
        for name, field in fields.items():
            if name in value:
                self.visit(value[name], field.type, (*place, name))
            elif field.required:
                self._missing_key(name, field.type, place)
            elif isinstance(field.default, str):
                self._visit_leaf(field.default, field.type, (*place, name))

    def _visit_union(self, value: object, union: mi.UnionType, place: Place) -> None:
        if value is None and any(isinstance(option, mi.NoneType) for option in union.types):
            return
        options = [option for option in union.types if not isinstance(option, mi.NoneType)]
        tagged = [option for option in options if isinstance(option, mi.StructType) and option.tag_field]
        if len(options) == 1:
            self.visit(value, options[0], place)
        elif tagged and isinstance(value, dict):
            self._visit_tagged(value, tagged, place)
        else:
            literals = [option for option in options if isinstance(option, mi.LiteralType)]
            if not any(_is_choice(value, literal) for literal in literals):
                self._mismatch(value, union, place)

    def _visit_tagged(self, value: dict[str, object], options: list[mi.StructType], place: Place) -> None:
        tag_field = options[0].tag_field or ""
        by_tag = {str(option.tag): option for option in options}
        expected = f"expected {tag_field} = {join_choices(quote(tag) for tag in by_tag)}"
        if tag_field not in value:
            fitting = [tag for tag, option in by_tag.items() if _fits(value, option)]
            hint = f"add {tag_field} = {quote(fitting[0])}" if len(fitting) == 1 else ""
            self.report("key-missing", (*place, tag_field), f"{expected}, found no such key", hint)
            if len(fitting) == 1:
                self._visit_struct(value, by_tag[fitting[0]], place)
            return
        tag = value[tag_field]
        if isinstance(tag, str) and tag in by_tag:
            self._visit_struct(value, by_tag[tag], place)
            return
        near = nearest(tag, list(by_tag)) if isinstance(tag, str) else None
        hint = f"did you mean {quote(near)}?" if near else ""
        self.report("choice-unknown", (*place, tag_field), f"{expected}, found {describe(tag)}", hint)

    def _visit_array(self, value: object, array: mi.VarTupleType | mi.ListType, place: Place) -> None:
        if not isinstance(value, list):
            self._mismatch(value, array, place)
            return
        if array.min_length and len(value) < array.min_length:
            self.report("value-invalid", place, f"expected at least {array.min_length}, found an empty array")
        for position, item in enumerate(value):
            self.visit(item, array.item_type, (*place, position))

    def _visit_table(self, value: object, table: mi.DictType, place: Place) -> None:
        if not isinstance(value, dict):
            self._mismatch(value, table, place)
            return
        for key, item in value.items():
            fault = check_leaf(key, table.key_type)
            if fault is not None:
                self.report("key-invalid", (*place, key), fault.message)
            self.visit(item, table.value_type, (*place, key))

    def _visit_literal(self, value: object, literal: mi.LiteralType, place: Place) -> None:
        if not _is_choice(value, literal):
            self._mismatch(value, literal, place)

    def _mismatch(self, value: object, info: mi.Type, place: Place) -> None:
        literals = [option for option in _options(info) if isinstance(option, mi.LiteralType)]
        choices = [str(choice) for literal in literals for choice in literal.values]
        near = nearest(value, choices) if isinstance(value, str) else None
        code = "choice-unknown" if choices and isinstance(value, str) else "value-invalid"
        hint = f"did you mean {quote(near)}?" if near else _shape_hint(value, info)
        self.report(code, place, f"expected {expected_words(info)}, found {describe(value)}", hint)

    def _missing_key(self, name: str, info: mi.Type, place: Place) -> None:
        words = expected_words(info)
        header = ".".join(part for part in (*place, name) if isinstance(part, str))
        hint = f"add {name} = …"
        if self._is_json:
            hint = f"add {quote(name)}: {'[…]' if isinstance(info, mi.VarTupleType) else '…'}"
        elif words.startswith("a table"):
            hint = f"add a table [{header}]"
        elif words.startswith("an array of tables"):
            hint = f"add a table [[{header}]]"
        self.report("key-missing", (*place, name), f"expected {words}, found no such key", hint)

    def _unknown_key(self, key: str, struct: mi.StructType, place: Place) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            self._unlisted += 1
            return
        foreign = sorted({f"U+{ord(character):04X}" for character in key[:200] if not character.isascii()})
        note = f" (it contains {', '.join(foreign[:5])})" if foreign else ""
        hint = unknown_key_hint(key, struct, self._key_map)
        self.report("key-unknown", (*place, key), f"expected a known key, found {quote(key)}{note}", hint)


def _is_choice(value: object, literal: mi.LiteralType) -> bool:
    return isinstance(value, str) and value in literal.values


def _options(info: mi.Type) -> tuple[mi.Type, ...]:
    return info.types if isinstance(info, mi.UnionType) else (info,)


def _fits(value: dict[str, object], struct: mi.StructType) -> bool:
    known = {field.encode_name for field in struct.fields}
    required = {field.encode_name for field in struct.fields if field.required}
    return required <= set(value) <= known


def _shape_hint(value: object, info: mi.Type) -> str:
    """How the value would have to be written, where that is easy to say."""
    match info:
        case mi.VarTupleType(item_type=item) | mi.ListType(item_type=item):
            example = _table_example(strip_metadata(item))
            if example:
                return f"write [{example}]"
            return "write it in brackets: […]" if isinstance(value, str) else ""
        case mi.StructType():
            return f"write {_table_example(info)}"
        case mi.UnionType(types=types):
            tables = [_table_example(option) for option in types if isinstance(option, mi.StructType)]
            return f"or write {tables[0]}" if tables else ""
        case _:
            return ""


def _table_example(info: mi.Type) -> str:
    if not isinstance(info, mi.StructType):
        return ""
    required = [field.encode_name for field in info.fields if field.required]
    names = required or [field.encode_name for field in info.fields][:1]
    pairs = [f"{info.tag_field} = {quote(str(info.tag))}"] if info.tag_field else []
    return "{ " + ", ".join([*pairs, *(f"{name} = …" for name in names)]) + " }"
