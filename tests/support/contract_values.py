"""Sound values for any field of a model, and all the places where a document could have another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec import inspect as mi

Place: TypeAlias = tuple[str | int, ...]

# Something for every pattern of the models; each type picks what fits it.
POOL = (
    "none: nothing is built",
    *(
        "a",
        "b-2",
        "x.y_z",
        "checks/unit.json",
        "src/ring.c",
        "statement.md",
        "/opt/cargo-home",
        "/tmp/x",
        ".",
    ),
    *("**/*.py", "!docs/**", "PATH", "LC_ALL", "_x", ">=3.11", ">=20,<23", "==1.2.3", "results/*.xml"),
    *("0123456789abcdef" * 2 + "01234567", "fedcba9876543210" * 2 + "fedcba98"),
    *("sha256:" + "0" * 64, "sha256:" + "1" * 64, "repotrial/contract@1"),
)


def values_of(info: mi.Type) -> st.SearchStrategy[Any]:
    """Sound values of a type, as a document would hold them."""
    inner = strip(info)
    for kind, build in _BUILDERS:
        if isinstance(inner, kind):
            return build(inner)
    raise TypeError(f"expected a type of a contract's document, found {inner}")


def strip(info: mi.Type) -> mi.Type:
    return info.type if isinstance(info, mi.Metadata) else info


def _texts(info: Any) -> st.SearchStrategy[str]:
    if info.pattern is not None:
        return st.sampled_from([word for word in POOL if re.search(info.pattern, word)])
    characters = st.characters(codec="ascii", exclude_characters="\0")
    return st.text(characters, min_size=info.min_length or 0, max_size=min(info.max_length or 12, 12))


def _tables(info: Any) -> st.SearchStrategy[dict[str, Any]]:
    required = {field.encode_name: values_of(field.type) for field in info.fields if field.required}
    optional = {field.encode_name: values_of(field.type) for field in info.fields if not field.required}
    if info.tag_field is not None:
        required[info.tag_field] = st.just(info.tag)
    return st.fixed_dictionaries(required, optional=optional)


_BUILDERS: tuple[tuple[type[mi.Type], Callable[[Any], st.SearchStrategy[Any]]], ...] = (
    (mi.StrType, _texts),
    (mi.IntType, lambda info: st.integers(int(info.ge or 0), min(int(info.le or 1000), 1_000_000))),
    (mi.DecimalType, lambda _: st.decimals(0, 1, places=2).map(str)),
    (mi.BoolType, lambda _: st.booleans()),
    (mi.NoneType, lambda _: st.none()),
    (mi.EnumType, lambda info: st.sampled_from([member.value for member in info.cls])),
    (mi.LiteralType, lambda info: st.sampled_from(info.values)),
    (mi.UnionType, lambda info: st.one_of([values_of(option) for option in info.types])),
    (
        mi.VarTupleType,
        lambda info: st.lists(values_of(info.item_type), min_size=info.min_length or 0, max_size=2),
    ),
    (
        mi.DictType,
        lambda info: st.dictionaries(values_of(info.key_type), values_of(info.value_type), max_size=2),
    ),
    (mi.StructType, _tables),
)


def iter_sites(value: Any, info: mi.Type, place: Place = ()) -> Iterator[tuple[Place, mi.Type]]:
    """Every field of a document, set or not, and every item of its arrays, with its type."""
    if place:
        yield place, info
    for step, item, inner in _children(value, _chosen(value, strip(info))):
        yield from iter_sites(item, inner, (*place, step))


def _chosen(value: Any, info: mi.Type) -> mi.Type:
    if not isinstance(info, mi.UnionType):
        return info
    for option in map(strip, info.types):
        if isinstance(option, mi.StructType) and isinstance(value, dict):
            if option.tag_field is None or value.get(option.tag_field) == option.tag:
                return option
        elif isinstance(option, mi.VarTupleType) and isinstance(value, list):
            return option
    return info


def _children(value: Any, info: mi.Type) -> Iterator[tuple[str | int, Any, mi.Type]]:
    match info:
        case mi.StructType(fields=fields) if isinstance(value, dict):
            yield from ((field.encode_name, value.get(field.encode_name), field.type) for field in fields)
        case mi.VarTupleType(item_type=item) if isinstance(value, list):
            yield from ((position, each, item) for position, each in enumerate(value))
        case mi.DictType(value_type=item) if isinstance(value, dict):
            yield from ((key, each, item) for key, each in value.items())
        case _:
            return


def replace_at(value: Any, place: Place, new: Any) -> Any:
    """A copy of a document with one value exchanged."""
    if not place:
        return new
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        return [replace_at(item, rest, new) if index == step else item for index, item in enumerate(value)]
    return {**value, step: replace_at(value.get(step), rest, new)}
