"""Known keys, and where a misplaced or misspelt one probably belongs."""

from __future__ import annotations

from msgspec import inspect as mi

from repotrial._core.schema import strip_metadata
from repotrial.contract._words import join_choices, nearest, quote

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
