"""The measurements of the tree, and the limits that hold it."""

from __future__ import annotations

from pathlib import Path

from support.tools import load_tool

house = load_tool("house")


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_the_tree_keeps_within_its_limits() -> None:
    assert house.measure_house().list_excesses() == []


def test_what_is_counted(tmp_path: Path) -> None:
    root = _write(
        tmp_path,
        {
            "src/repotrial/__init__.py": "",
            "src/repotrial/room/__init__.py": '__all__ = ["One", "two"]\n',
            "src/repotrial/room/_a.py": '"""Doc."""\n__all__ = ["One"]\n\n\nclass One:\n    x = 1\n',
            "src/repotrial/room/_b.py": "class One:\n    pass\n\n\nclass _Two:\n    pass\n",
            "tests/unit/test_a.py": "from repotrial.room import One\nfrom repotrial.room._a import One\n"
            "from repotrial._core.errors import UsageError\n",
            "tests/support/a.py": "from repotrial.room._b import One\n",
        },
    )
    found = house.measure_house(root)
    assert (found.statements, found.docstrings) == (9, 1)
    assert (found.names, found.ambiguous) == (1, ["One"])
    assert (found.exports, found.inner_all) == (2, 1)
    assert (found.private_imports, found.support_imports) == (1, 1)
    assert (found.rooms["room"].modules, found.rooms["room"].lines) == (3, 13)


def test_a_room_that_is_too_large_is_named(tmp_path: Path) -> None:
    files = {f"src/repotrial/room/_m{number}.py": "" for number in range(61)}
    root = _write(tmp_path, {**files, "src/repotrial/long/_a.py": "x = 1\n" * 8_001, "tests/unit/a.py": ""})
    assert house.measure_house(root).list_excesses() == [
        "long: expected at most 8000 lines, found 8001",
        "room: expected at most 60 modules, found 61",
    ]
