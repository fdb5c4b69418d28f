"""Shell commands: what their words read and write, and what their output names."""

from __future__ import annotations

import pytest

from repotrial.retrieval import load_retrieval_tools
from repotrial.retrieval._extract import Extractor, TracedCall
from repotrial.retrieval._places import build_names
from support.retrieval_calls import extract


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("cat src/a.py", "x", [("file_read", ["src/a.py"])]),
        ("cd src && cat a.py b.py", "x", [("file_read", ["src/a.py", "src/b.py"])]),
        ("head -20 /workspace/a.py", "x", [("file_read", ["a.py"])]),
        ("git show HEAD:src/a.py", "x", [("file_read", ["src/a.py"])]),
        ("grep -n foo src/a.py", "3:foo", [("code_search", ["src/a.py"])]),
        ("grep -rn foo src", "src/a.py:3:foo\nsrc/b.py:4:x", [("code_search", ["src/a.py", "src/b.py"])]),
        ("rg foo", "src/a.py\n3:foo\n", [("code_search", ["src/a.py"])]),
        ("cd src && rg -n foo", "a.py:3:foo lib/x.py", [("code_search", ["src/a.py"])]),
        ("git grep -l foo", "src/a.py\n", [("code_search", ["src/a.py"])]),
        ("find . -name '*.py' | head", "./src/a.py\n./b.py", [("file_search", ["src/a.py", "b.py"])]),
        ("find src -type f", "src/Makefile\nsrc/a.py", [("file_search", ["src/makefile", "src/a.py"])]),
        ("find /workspace -type d -name x", "/workspace/x", [("other", [])]),
        ("ls src", "a.py\nlib\n", [("file_search", ["src/a.py"])]),
        (
            "ls -la",
            "total 1\n-rw-r--r-- 1 u g 5 Nov 1 10:00 LICENSE\ndrwxr-xr-x 2 u g 5 Nov 1 10:00 src",
            [("file_search", ["license"])],
        ),
        ("sed -i s/a/b/ src/a.py", "", [("file_write", ["src/a.py"])]),
        ("echo x > out.txt", "", [("file_write", ["out.txt"])]),
        ("cat a.py > b.py", "", [("file_read", ["a.py"]), ("file_write", ["b.py"])]),
        (
            "apply_patch <<'E'\n*** Begin Patch\n*** Update File: a.py\n*** End Patch\nE",
            "",
            [("file_write", ["a.py"])],
        ),
        ("cat missing.py", "cat: missing.py: No such file or directory", [("other", [])]),
        ("cat /etc/passwd /usr/include/x.h", "x", [("other", [])]),
        ("mkdir -p build", "", [("other", [])]),
        ("npm test", "src/a.py:3:1 failed", [("other", [])]),
        ("find src | xargs cat", "see src/secret.py for more", [("other", [])]),
        ("tool search x", "# example.org/o/r \u2013 src/a.py\n1: x", [("code_search", ["src/a.py"])]),
        (
            "tool read x",
            "URL: https://example.org/o/r@a/-/blob/src/a.py\n1: x",
            [("file_read", ["src/a.py"])],
        ),
    ],
)
def test_files_of_a_command(command: str, output: str, expected: list[tuple[str, list[str]]]) -> None:
    assert extract("Bash", {"command": command}, output) == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("execute_bash", {"command": "cat a.py"}),
        ("exec_command", {"cmd": "cat a.py"}),
        ("shell", {"command": ["bash", "-lc", "cat a.py"]}),
        ("run_commands", {"commands": ["cat a.py"]}),
        ("command_execution", {"command": "/bin/bash -c 'cat a.py'"}),
        ("bash_command", {"keystrokes": "cat a.py\n"}),
        ("run_shell_command", {"command": "cat a.py"}),
    ],
)
def test_every_agents_shell_is_one(name: str, arguments: dict[str, object]) -> None:
    assert extract(name, arguments, "x") == [("file_read", ["a.py"])]


def test_a_line_is_not_taken_for_arguments_of_the_one_before() -> None:
    command = (
        'grep -rl "a" lib --include="*.go" 2>/dev/null | grep -v _test.go | head -20\n'
        'echo "=== more ==="\n'
        'grep -rl "b\\"" src pkg 2>/dev/null | grep -v _test.go | head -20\n'
        "cd src && cat a.py\n"
    )
    assert extract("Bash", {"command": command}, "lib/x.go\n=== more ===\n") == [
        ("code_search", ["lib/x.go"]),
        ("file_read", ["src/a.py"]),
    ]


def test_output_of_a_failed_command_is_not_read() -> None:
    assert extract("Bash", {"command": "grep -rn x src"}, "src/a.py:1:x", is_error=True) == [("other", [])]


def test_a_shell_remembers_where_it_is_if_the_tool_does() -> None:
    names = build_names(roots=("/workspace",), truth=())
    for name, expected in (("Bash", "src/a.py"), ("exec_command", "a.py")):
        extractor = Extractor(load_retrieval_tools(), names, "/workspace")
        extractor.extract(TracedCall(name=name, arguments={"command": "cd src"}))
        (found,) = extractor.extract(TracedCall(name=name, arguments={"command": "cat a.py"}))
        assert [names.name(place) for place in found.places] == [expected]


def test_a_directory_that_is_given_counts() -> None:
    arguments = {"cmd": "cat a.py", "workdir": "/workspace/lib"}
    assert extract("exec_command", arguments, "x") == [("file_read", ["lib/a.py"])]
