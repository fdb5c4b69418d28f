"""Files of calls, from their arguments and their results: every form that traces have, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repotrial.retrieval import load_retrieval_tools
from support.errors import raises_code
from support.retrieval_calls import extract, lines_of


@pytest.mark.parametrize(
    ("name", "arguments", "category"),
    [
        ("Read", {"file_path": "/workspace/a.py"}, "file_read"),
        ("NotebookRead", {"notebook_path": "a.py"}, "file_read"),
        ("read_file", {"absolute_path": "/workspace/a.py"}, "file_read"),
        ("read", {"filePath": "/workspace/a.py"}, "file_read"),
        ("view", {"path": "a.py"}, "file_read"),
        ("file_system.read_file", {"filePath": "a.py"}, "file_read"),
        ("read_files", {"files": [{"path": "/workspace/a.py"}]}, "file_read"),
        ("mcp__filesystem__read_text_file", {"path": "a.py"}, "file_read"),
        ("str_replace_editor", {"command": "view", "path": "/workspace/a.py"}, "file_read"),
        ("str_replace_editor", {"command": "create", "path": "/workspace/a.py"}, "file_write"),
        ("developer__text_editor", {"command": "write", "path": "a.py"}, "file_write"),
        ("MultiEdit", {"file_path": "a.py", "edits": []}, "file_write"),
        ("write_to_file", {"path": "a.py", "content": "x"}, "file_write"),
        ("replace_string_in_file", {"filePath": "a.py"}, "file_write"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n*** End Patch"}, "file_write"),
        ("apply_patch", "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch", "file_write"),
        ("file_change", {"changes": [{"path": "a.py", "kind": "update"}]}, "file_write"),
        ("mcp__sourcegraph__sg_go_to_definition", {"path": "a.py", "symbol": "f"}, "symbol_navigation"),
        ("mcp__x__find_references", {"path": "a.py"}, "symbol_navigation"),
    ],
)
def test_arguments_name_files_under_every_agents_words(name: str, arguments: Any, category: str) -> None:
    assert extract(name, arguments) == [(category, ["a.py"])]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("mcp__sourcegraph__list_repos", "other"),
        ("mcp__sourcegraph__sg_commit_search", "commit_search"),
        ("mcp__sourcegraph__deepsearch_read", "deep_search"),
        ("mcp__slack__post_message", "other"),
        ("Task", "other"),
        ("codebase_search", "code_search"),
        ("list_dir", "file_search"),
    ],
)
def test_a_tools_name_says_its_category(name: str, category: str) -> None:
    assert extract(name, {"path": ""}) == [(category, [])]


@pytest.mark.parametrize("name", ["TodoWrite", "think", "finish", "ToolSearch", "update_plan", "submit"])
def test_tools_that_retrieve_nothing_make_no_event(name: str) -> None:
    assert extract(name, {"path": "a.py"}) == []


GREP = """\
Found 3 files
src/core/a.py
LICENSE
app/(group)/page.tsx
migrations/0001-2024-init.sql
./docs/my notes.md
"""


def test_a_search_that_shows_names_gives_them_all() -> None:
    (found,) = extract("Grep", {"pattern": "x"}, GREP)
    assert found == (
        "code_search",
        [
            "src/core/a.py",
            "license",
            "app/(group)/page.tsx",
            "migrations/0001-2024-init.sql",
            "docs/my notes.md",
        ],
    )


def test_lines_of_a_search_name_their_file_and_context_names_none() -> None:
    output = "src/a.py:12:def a():\nsrc/a.py-13-    return b/c.py\n--\nsrc/b.py:7:see lib/c.py for i/o.\n"
    assert extract("Grep", {"pattern": "x", "output_mode": "content"}, output) == [
        ("code_search", ["src/a.py", "src/b.py"])
    ]


def test_lines_of_one_file_name_no_other() -> None:
    output = "864-\t\t// this means we could not reach a/b watchers.\n865:\tif x {\n900:foo/bar.baz qux"
    arguments = {"pattern": "x", "path": "/workspace/Makefile", "output_mode": "content"}
    assert extract("Grep", arguments, output) == [("code_search", ["makefile"])]


@pytest.mark.parametrize(
    "prose",
    [
        "No files found",
        "Error: something in src/a.py went wrong.",
        "I looked at a/b and c/d.",
        "https://example.org/a/b.html",
        "# heading/with.slash and text",
        "(Results are truncated. Consider a more specific path.)",
        "src/directory/",
        "lib/a/b.c;",
    ],
)
def test_prose_is_no_file(prose: str) -> None:
    assert extract("Glob", {"pattern": "**"}, prose) == [("file_search", [])]
    assert extract("Grep", {"pattern": "x", "path": "/workspace"}, prose) == [("code_search", [])]


def test_a_failed_call_brings_up_nothing() -> None:
    assert extract("Read", {"file_path": "a.py"}, "no such file", is_error=True) == [("file_read", [])]
    assert extract("Grep", {"pattern": "x"}, "src/a.py", is_error=True) == [("code_search", [])]


def test_metadata_of_an_observation_names_files() -> None:
    output = 'Found 1 file\nsrc/a.py\n\n[metadata] {"numFiles": 2, "filenames": ["/workspace/src/a.py", "b"]}'
    assert extract("Grep", {"pattern": "x"}, output) == [("code_search", ["src/a.py", "b"])]


SERVED = [
    (
        {"files": [{"isDirectory": True, "path": "src/"}, {"isDirectory": False, "path": "Makefile"}]},
        ["makefile"],
    ),
    (
        {"blocks": [{"file": "src/a.py", "repo": "o/r", "chunks": [{"startLine": 3, "endLine": 5}]}]},
        ["src/a.py"],
    ),
    ({"results": [{"path": "src/a.py"}, {"path": "src/b.py"}]}, ["src/a.py", "src/b.py"]),
    ({"repositories": [{"name": "o/r"}]}, []),
    ({"url": "https://example.org/o/r@abc/-/blob/src/a.py%3FL1-9", "content": "1: x"}, ["src/a.py"]),
    (
        {"text": "# example.org/o/r \u2013 src/a.py\n1: x\n2: y\n\n# example.org/o/r \u2013 b/c.go\n9: z"},
        ["src/a.py", "c.go"],
    ),
    ("URL: https://example.org/o/r@abc/-/blob/src/a.py?L1-2\n1: x\n2: see b/c.py", ["src/a.py"]),
    ('{"blocks": [{"file": "src/a.py", "chunks": [{"content": "1: x', ["src/a.py"]),
    ('{"text":"# o/r \u2013 src/a.py\\n1: x\\n2: cut \\', ["src/a.py"]),
    ({"error": "see docs/a.md"}, []),
    ("I found src/a.py for you.", []),
]


@pytest.mark.parametrize(("output", "files"), SERVED)
def test_answers_of_search_servers_name_files(output: Any, files: list[str]) -> None:
    (found,) = extract("mcp__sourcegraph__sg_keyword_search", {"query": "x"}, output)
    assert found == ("code_search", files)


def test_a_servers_listing_is_a_list_of_lines() -> None:
    (found,) = extract("mcp__sourcegraph__list_files", {"repo": "o/r"}, {"text": "src/\nsrc/a.py\nLICENSE\n"})
    assert found == ("file_search", ["src/a.py", "license"])


@pytest.mark.parametrize(
    ("name", "arguments", "output", "expected"),
    [
        ("Read", {"file_path": "a", "offset": 40, "limit": 3}, "", ("a", 40, 42)),
        ("Read", {"file_path": "a"}, "     7\u2192x\n     8\u2192y\n", ("a", 7, 8)),
        ("view", {"path": "a"}, "x\ny\nz\n", ("a", 1, 3)),
        ("str_replace_editor", {"command": "view", "path": "a", "view_range": [3, 9]}, "", ("a", 3, 9)),
        ("mcp__s__read_file", {"path": "a", "startLine": 2, "endLine": 4}, "{}", ("a", 2, 4)),
        ("read_file", {"path": "a", "start_line": 2, "end_line": 4}, "", ("a", 2, 4)),
        ("Bash", {"command": "sed -n '3,9p' a"}, "x", ("/workspace/a", 3, 9)),
        ("Bash", {"command": "cat a.py"}, "x\ny\n", ("/workspace/a.py", 1, 2)),
    ],
)
def test_lines_that_were_shown(
    name: str, arguments: Any, output: str, expected: tuple[str, int, int]
) -> None:
    assert lines_of(name, arguments, output) == [expected]


TRUTH = ("github.com/o/r::src/a.py", "p/q::src/a.py")


@pytest.mark.parametrize(
    ("name", "arguments", "files"),
    [
        ("mcp__sourcegraph__read_file", {"repo": "o/r", "path": "src/a.py"}, ["github.com/o/r::src/a.py"]),
        ("mcp__sourcegraph__read_file", {"repo": "example.org/p/q", "path": "src/a.py"}, ["p/q::src/a.py"]),
        (
            "mcp__sourcegraph__read_file",
            {"repo": "m/o-r--v1", "path": "src/a.py"},
            ["github.com/o/r::src/a.py"],
        ),
        ("mcp__sourcegraph__read_file", {"repo": "x/y", "path": "src/a.py"}, ["src/a.py"]),
        ("mcp__sourcegraph__read_file", {"path": "src/a.py"}, ["src/a.py"]),
        ("Read", {"file_path": "/workspace/q/src/a.py"}, ["p/q::src/a.py"]),
        ("Read", {"file_path": "/workspace/src/a.py"}, ["src/a.py"]),
    ],
)
def test_a_file_of_a_named_repository_is_met_only_there(name: str, arguments: Any, files: list[str]) -> None:
    assert extract(name, arguments, truth=TRUTH) == [("file_read", files)]


def test_paths_are_relative_to_where_the_agent_worked() -> None:
    assert extract("Read", {"file_path": "/app/src/a.py"}, directory="/app") == [("file_read", ["src/a.py"])]
    assert extract("Read", {"file_path": "/app/src/a.py"}) == [("file_read", ["app/src/a.py"])]


def test_arguments_that_were_cut_off_still_say_what_they_can() -> None:
    cut = '{"file_path": "/workspace/a.json", "content": "{\\n  \\"files\\": [\\n ...'
    assert extract("Write", cut) == [("file_write", ["a.json"])]
    assert extract("execute_bash", '{"command": "cat > b.json <<EOF\\n{') == [("file_write", ["b.json"])]


def test_a_users_table_adds_tools_and_wins(tmp_path: Path) -> None:
    table = tmp_path / "tools.toml"
    table.write_text(
        'schema = "repotrial/retrieval-tools@1"\n'
        '[categories]\nfile_read = ["peek"]\nother = ["grep"]\n[arguments]\nfiles = ["wo"]\n'
    )
    tools = load_retrieval_tools(table)
    assert tools.find_kind("peek", {}) == "file_read"
    assert tools.find_kind("Grep", {}) == "other"
    assert tools.find_kind("Read", {}) == "file_read"
    assert list(tools.find_values({"wo": "a.py", "path": "b.py"}, "files")) == ["a.py", "b.py"]


@pytest.mark.parametrize("text", ["", "schema = 1", "not toml [", 'schema = "repotrial/retrieval-tools@2"'])
def test_a_table_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    table = tmp_path / "tools.toml"
    table.write_text(text)
    with raises_code("retrieval-tools-invalid"):
        load_retrieval_tools(table)


def test_only_declared_servers_are_remote_evidence(tmp_path: Path) -> None:
    """R7: `mcp__sourcegraph__*`, and servers that a table of the user declares."""
    table = tmp_path / "tools.toml"
    table.write_text('schema = "repotrial/retrieval-tools@1"\nmcp_servers = ["github"]\n')
    plain, extended = load_retrieval_tools(), load_retrieval_tools(table)
    names = ("mcp__sourcegraph__sg_read_file", "mcp__github__read_file", "mcp__sourcegraph_x__read", "Read")
    assert [plain.is_mcp(name) for name in names] == [True, False, False, False]
    assert [extended.is_mcp(name) for name in names] == [True, True, False, False]
