"""Changes that want to touch what they must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.change import read_change
from repotrial.contract import Policy
from repotrial.contract._policy import Violations
from repotrial.policy import check_change, split_change
from support.errors import raises_code
from support.git_patches import Entry, Tree, commit_trees, execute_git, make_patch, read_tree, write_tree

_POLICY = Policy(protected=("**/conftest.py", "tests/**", "setup.cfg", "caf\u00e9.py"))
_BASE: Tree = {
    b"setup.cfg": Entry(b"[tool]\n" * 9),
    b"src/a.py": Entry(b"x = 1\n" * 9),
    b"tests/conftest.py": Entry(b"pass\n" * 9),
}


def _change(**changes: Entry | None) -> Tree:
    tree: dict[bytes, Entry] = dict(_BASE)
    for name, entry in changes.items():
        path = name.encode()
        if entry is None:
            del tree[path]
        else:
            tree[path] = entry
    return tree


ATTACKS: dict[str, tuple[Tree, str]] = {
    "another case": (_change(**{"src/Conftest.py": Entry(b"x\n")}), "src/Conftest.py"),
    "another case of the directory": (_change(**{"TESTS/x.py": Entry(b"x\n")}), "TESTS/x.py"),
    "another composition": (_change(**{"cafe\u0301.py": Entry(b"x\n")}), "cafe\u0301.py"),
    "an invisible character": (_change(**{"setup\u200c.cfg": Entry(b"x\n")}), "setup\u200c.cfg"),
    "a dot that NTFS drops": (_change(**{"setup.cfg.": Entry(b"x\n")}), "setup.cfg."),
    "a deletion": (_change(**{"setup.cfg": None}), "setup.cfg"),
    "a mode": (_change(**{"setup.cfg": Entry(b"[tool]\n" * 9, is_executable=True)}), "setup.cfg"),
    "a rename away": (_change(**{"setup.cfg": None, "src/s.cfg": _BASE[b"setup.cfg"]}), "setup.cfg"),
    "a rename onto it": (
        _change(**{"src/a.py": None, "src/conftest.py": _BASE[b"src/a.py"]}),
        "src/conftest.py",
    ),
    "a link over its directory": (
        _change(**{"tests/conftest.py": None, "tests": Entry(b"src", is_link=True)}),
        "tests",
    ),
    "a link in its place": (
        _change(**{"setup.cfg": Entry(b"src/a.py", is_link=True)}),
        "setup.cfg",
    ),
}


@pytest.mark.parametrize("options", [("--no-renames",), ("-M",)], ids=["plain", "renames"])
@pytest.mark.parametrize("name", ATTACKS)
def test_touching_a_protected_file_is_seen_and_undone(
    tmp_path: Path, name: str, options: tuple[str, ...]
) -> None:
    tree, path = ATTACKS[name]
    commit_trees(tmp_path, _BASE, {**tree, b"src/honest.py": Entry(b"y = 1\n")})
    patch = make_patch(tmp_path, *options, "--full-index")
    found = check_change(read_change(patch), _POLICY)
    assert (path, "protected", "hard") in {(each.path, each.rule, each.severity) for each in found}
    split = split_change(patch, _POLICY, [])
    assert path in split.stripped
    write_tree(tmp_path, _BASE)
    execute_git(tmp_path, "apply", "-", stdin=split.kept)
    after = read_tree(tmp_path)
    assert after[b"src/honest.py"] == Entry(b"y = 1\n")
    assert {key: after.get(key) for key in (b"setup.cfg", b"tests/conftest.py", path.encode())} == {
        key: _BASE.get(key) for key in (b"setup.cfg", b"tests/conftest.py", path.encode())
    }


def test_a_link_to_a_directory_with_other_protected_names_is_a_way_around(tmp_path: Path) -> None:
    policy = Policy(protected=("*/data.json", "lib/**/x.py"))
    tree = {b"top": Entry(b"deep/er", is_link=True), b"lib/y": Entry(b"/tmp", is_link=True)}
    commit_trees(tmp_path, {}, tree)
    found = check_change(read_change(make_patch(tmp_path)), policy)
    assert [each.path for each in found if each.rule == "protected"] == ["lib/y", "top"]


def test_a_link_below_which_the_same_globs_hold_is_fine(tmp_path: Path) -> None:
    commit_trees(tmp_path, {}, {b"docs/readme": Entry(b"../README", is_link=True)})
    assert check_change(read_change(make_patch(tmp_path)), _POLICY) == ()


def test_a_submodule_over_protected_names_is_seen(tmp_path: Path) -> None:
    commit_trees(tmp_path, {}, {})
    execute_git(tmp_path, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",Tests")
    found = check_change(read_change(make_patch(tmp_path)), _POLICY)
    assert [each.path for each in found] == ["Tests"]


def test_a_path_that_was_taken_back_is_not_writable_in_another_case(tmp_path: Path) -> None:
    commit_trees(tmp_path, {}, {b"Vendor/a.py": Entry(b"x\n"), b"b.py": Entry(b"x\n")})
    found = check_change(read_change(make_patch(tmp_path)), Policy(writable=("**", "!vendor/**")))
    assert [(each.rule, each.path) for each in found] == [("writable", "Vendor/a.py")]


def test_both_sides_of_a_rename_must_be_writable(tmp_path: Path) -> None:
    commit_trees(tmp_path, {b"lib/a": Entry(b"x\n" * 9)}, {b"src/a": Entry(b"x\n" * 9)})
    found = check_change(read_change(make_patch(tmp_path, "-M")), Policy(writable=("src/**",)))
    assert [(each.rule, each.path) for each in found] == [("writable", "lib/a")]


@pytest.mark.parametrize("glob", ["#comment", " ", "a[[:x"])
def test_a_glob_that_protects_nothing_is_an_error_not_a_gap(glob: str) -> None:
    with raises_code("policy-glob"):
        check_change(read_change(b""), Policy(protected=("tests/**", glob)))


def test_sizes_and_severities_come_from_the_policy(tmp_path: Path) -> None:
    policy = Policy(
        max_files_changed=1,
        max_lines_changed=2,
        max_binary_bytes=3,
        generated=("**/*.pyc",),
        violations=Violations(change_size="hard", generated="hard"),
    )
    tree = {b"a": Entry(b"x\n" * 3), b"b": Entry(b"\0" * 4), b"c/d.pyc": Entry(b"")}
    commit_trees(tmp_path, {}, tree)
    found = check_change(read_change(make_patch(tmp_path)), policy)
    assert [(each.rule, each.severity, each.path) for each in found] == [
        ("change_size", "hard", None),
        ("change_size", "hard", None),
        ("change_size", "hard", None),
        ("generated", "hard", "c/d.pyc"),
    ]
    assert [each.message.rpartition("found ")[2] for each in found[:3]] == ["3", "3", "4"]


@pytest.mark.parametrize(
    ("tree", "target", "stripped"),
    [
        ({b"checks/t.py": Entry(b"x\n")}, "checks/t.py", ("checks/t.py",)),
        ({b"Checks/T.py": Entry(b"x\n")}, "checks/t.py", ("Checks/T.py",)),
        ({b"checks": Entry(b"x\n")}, "checks/t.py", ("checks",)),
        ({b"checks": Entry(b"src", is_link=True)}, "checks/t.py", ("checks",)),
        ({b"checks/t.py/x": Entry(b"x\n")}, "checks/t.py", ("checks/t.py/x",)),
        ({b"checks/u.py": Entry(b"x\n")}, "checks", ("checks/u.py",)),
        ({b"checks/u.py": Entry(b"x\n")}, "checks/t.py", ()),
    ],
)
def test_files_in_the_place_of_the_oracles_are_stripped(
    tmp_path: Path, tree: Tree, target: str, stripped: tuple[str, ...]
) -> None:
    commit_trees(tmp_path, {}, tree)
    assert split_change(make_patch(tmp_path), Policy(), [target]).stripped == stripped
