"""One document in any of its spellings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any


def without_null(value: Any) -> Any:
    """TOML has no null: what is absent is left out."""
    match value:
        case dict():
            return {key: without_null(item) for key, item in value.items() if item is not None}
        case list():
            return [without_null(item) for item in value]
        case _:
            return value


class TomlWriter:
    """Writes one document in any of its spellings: order of keys, style of tables, comments, decimals."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def write(self, document: Mapping[str, Any]) -> str:
        return self._body(document, ())

    def _body(self, table: Mapping[str, Any], place: tuple[str, ...]) -> str:
        lines: list[str] = []
        sections: list[str] = []
        for key, value in self._shuffled(table):
            if isinstance(value, dict) and value and self._coin():
                header = ".".join(map(self._key, (*place, key)))
                sections.append(f"[{header}]{self._comment()}\n" + self._body(value, (*place, key)))
            elif (
                value
                and isinstance(value, list)
                and all(isinstance(item, dict) for item in value)
                and self._coin()
            ):
                header = ".".join(map(self._key, (*place, key)))
                sections += [f"[[{header}]]\n" + self._body(item, (*place, key)) for item in value]
            elif isinstance(value, dict) and value and self._coin():
                lines += [f"{self._key(key)}.{self._key(k)} = {self._value(v)}" for k, v in value.items()]
            else:
                lines.append(
                    f"{self._key(key)}{self._space()}={self._space()}{self._value(value)}{self._comment()}"
                )
        return "\n".join(lines) + "\n" + "\n".join(sections) + "\n"

    def _value(self, value: Any) -> str:
        match value:
            case bool():
                return str(value).lower()
            case dict():
                pairs = [f"{self._key(key)} = {self._value(item)}" for key, item in self._shuffled(value)]
                return "{ " + ", ".join(pairs) + " }"
            case list():
                separator = ",\n  " if self._coin() else ", "
                return "[" + separator.join(map(self._value, value)) + "]"
            case str():
                if re.fullmatch(r"[0-9]+\.[0-9]+", value) and self._coin():
                    return value + "0" * self._random.randint(0, 3)
                return json.dumps(value, ensure_ascii=self._coin()).replace("\x7f", "\\u007f")
            case _:
                return str(value)

    def _shuffled(self, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
        items = list(table.items())
        self._random.shuffle(items)
        return items

    def _key(self, key: str) -> str:
        return key if re.fullmatch("[A-Za-z0-9_-]+", key) and self._coin() else json.dumps(key)

    def _space(self) -> str:
        return self._random.choice(["", " ", "\t", "   "])

    def _comment(self) -> str:
        return self._random.choice(["", "  # said differently", "\n# beside it"])

    def _coin(self) -> bool:
        return self._random.random() < 0.5


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
