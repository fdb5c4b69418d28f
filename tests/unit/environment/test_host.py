"""The host's own tools, as the sandbox's user sees them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import Unknown
from repotrial.contract import Environment, NodeEnvironment, PythonEnvironment
from repotrial.environment import observe_host, verify_host
from repotrial.environment._tools import find_rule, meets, parse_version, parse_version_output
from support.accounts import account, is_root, public_directory
from support.errors import raises_code


def _write_tool(path: Path, version: str, *, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'tool version {version}'\n")
    path.chmod(mode)
    return path


def _host(**tools: str) -> Environment:
    return Environment(image="host", tools=tools)


@pytest.mark.parametrize(
    ("name", "output", "version"),
    [
        ("python", "Python 3.11.2", "3.11.2"),
        ("python", "Python 3.13.0rc1+", "3.13.0rc1"),
        ("node", "v20.20.2", "20.20.2"),
        ("git", "git version 2.39.5 (Apple Git-154)", "2.39.5"),
        ("bash", "GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)", "5.2.15"),
        ("gcc", "gcc (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022", "12.2.0"),
        ("make", "GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu", "4.3"),
        ("cargo", "cargo 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95.0"),
        ("go", "go version go1.22.1 linux/amd64", "1.22.1"),
        ("java", "openjdk 17.0.15 2025-04-15\nOpenJDK Runtime", "17.0.15"),
        ("perl", "\nThis is perl 5, version 36, subversion 0 (v5.36.0) built for x", "5.36.0"),
        ("ruby", "ruby 3.1.2p20 (2022-04-12 revision 4491bb740a)", "3.1.2p20"),
        ("clang", "Debian clang version 14.0.6", "14.0.6"),
        ("sed", "sed (GNU sed) 4.9\n", "4.9"),
        ("jq", "jq-1.6", "1.6"),
        ("unheard-of", "no version here", None),
    ],
)
def test_versions_are_read_from_what_tools_print(name: str, output: str, version: str | None) -> None:
    assert parse_version_output(find_rule(name), output) == version


def test_tools_of_the_system_are_found_with_version_and_digest() -> None:
    host = observe_host(_host(bash=">=4", git=">=2"))
    assert host.problems == ()
    assert set(host.tools) == {"bash", "git"}
    assert host.tools["bash"].root is None
    assert host.tools["bash"].binary_digest.startswith("sha256:")
    assert host.versions == {name: tool.version for name, tool in host.tools.items()}
    verify_host(host)


def test_everything_that_is_missing_is_said_at_once() -> None:
    host = observe_host(_host(bash=">=400", nosuchtool=">=1", git=">=2"))
    assert [problem.name for problem in host.problems] == ["bash", "nosuchtool"]
    assert isinstance(host.versions["bash"], Unknown)
    with raises_code("host-tools-unmet") as caught:
        verify_host(host)
    assert "bash: expected >=400, found 5" in caught.value.message
    assert "nosuchtool: expected >=1, found none" in caught.value.message
    assert "apt install nosuchtool" in caught.value.hint


def test_package_environments_need_their_interpreters() -> None:
    environment = Environment(
        image="host",
        tools={"python": ">=3"},
        python=PythonEnvironment(lock="x", version=">=300"),
        node=NodeEnvironment(lock="x", manifest="y", version=">=300"),
    )
    problems = {problem.name: problem.expected for problem in observe_host(environment).problems}
    assert problems == {"python": ">=3,>=300", "node": ">=300"}


def test_names_that_commands_expect_are_linked() -> None:
    """Wherever there is no `python` on the path, or another one."""
    host = observe_host(_host(python=">=3.11"), search_path="/usr/bin:/bin")
    if host.problems:
        pytest.skip(f"no Python of the system that fits: {host.problems[0].found}")
    for name in ("python", "python3"):
        path = host.links.get(name, Path("/usr/bin") / name)
        assert path.resolve() == host.tools["python"].path.resolve()


def test_programs_loose_in_a_home_are_not_taken() -> None:
    with public_directory() as home:
        _write_tool(home / "bin/mytool", "1.0")
        host = observe_host(_host(mytool=">=1"), search_path=f"{home}/bin", home=home)
    assert [problem.found for problem in host.problems] == ["none"]


def test_tool_in_a_directory_of_its_own_is_taken_and_listed() -> None:
    with public_directory() as home:
        _write_tool(home / ".asdf/installs/mytool/1.5.0/bin/mytool", "1.5.0")
        newest = _write_tool(home / ".asdf/installs/mytool/1.10.0/bin/mytool", "1.10.0")
        host = observe_host(_host(mytool=">=1"), home=home)
        assert host.tools["mytool"].path == newest.resolve()
        assert host.tool_roots == (newest.parent.parent.resolve(),)
        assert host.search_path.startswith(f"{newest.resolve().parent}:")
        older = observe_host(_host(mytool="<1.10"), home=home)
        assert older.tools["mytool"].version == "1.5.0"


def test_link_out_of_a_tool_directory_is_not_taken() -> None:
    with public_directory() as home:
        loose = _write_tool(home / "loose/mytool", "1.0")
        link = home / ".asdf/installs/mytool/1.0/bin/mytool"
        link.parent.mkdir(parents=True)
        link.symlink_to(loose)
        host = observe_host(_host(mytool=">=1"), search_path=str(link.parent), home=home)
    assert len(host.problems) == 1


@pytest.mark.skipif(not is_root(), reason="root reads everything, so that another user is needed")
def test_tool_in_a_closed_home_is_listed_for_staging() -> None:
    with public_directory() as home:
        tool = _write_tool(home / "me/.nvm/versions/node/v99.1.0/bin/node", "x")
        tool.write_text("#!/bin/sh\necho v99.1.0\n")
        (home / "me").chmod(0o700)
        host = observe_host(_host(node=">=99"), home=home / "me", account=account())
        assert host.tools["node"].version == "99.1.0"
        assert host.tool_roots == (tool.parent.parent.resolve(),)


@pytest.mark.skipif(not is_root(), reason="root reads everything, so that another user is needed")
def test_tool_that_the_sandbox_user_can_run_is_preferred_to_one_in_a_closed_home() -> None:
    with public_directory() as home:
        _write_tool(home / ".pyenv/versions/3.99.0/bin/python3", "x").write_text(
            "#!/bin/sh\necho Python 3.99.0\n"
        )
        home.chmod(0o700)
        host = observe_host(
            _host(python=">=3.11"),
            search_path=f"{home}/.pyenv/versions/3.99.0/bin",
            home=home,
            account=account(),
        )
        if host.tools["python"].root is not None:
            pytest.skip("no Python of the system that fits")
        assert host.tools["python"].path.is_relative_to("/usr")


def test_relative_entries_of_the_search_path_are_ignored(tmp_path: Path) -> None:
    _write_tool(tmp_path / "mytool", "1.0")
    with contextlib.chdir(tmp_path):
        host = observe_host(_host(mytool=">=1"), search_path=".:", home=tmp_path)
    assert len(host.problems) == 1


@pytest.mark.parametrize("body", ["exit 1", "yes", "echo nothing"], ids=["fails", "floods", "mute"])
def test_tool_that_does_not_answer_is_a_problem_not_an_error(body: str) -> None:
    with public_directory() as home:
        tool = _write_tool(home / ".asdf/installs/mytool/1.0/bin/mytool", "1.0")
        tool.write_text(f"#!/bin/sh\n{body}\n")
        host = observe_host(_host(mytool=">=1"), home=home)
    assert "does not run as user id" in host.problems[0].found


_PARTS = st.lists(st.integers(0, 30), min_size=1, max_size=4)
_VERSIONS = _PARTS.map(lambda parts: ".".join(map(str, parts)))


@pytest.mark.parametrize(
    ("version", "constraint", "expected"),
    [
        ("3.11.2", ">=3.11", True),
        ("3.11", "==3.11.0", True),
        ("3.9.18", ">=3.11", False),
        ("3.11.2", ">=3.11,<3.12", True),
        ("3.12.0", ">=3.11,<3.12", False),
        ("20.20.2", "~=20.1", True),
        ("21.0.0", "~=20.1", False),
        ("3.11", "~=3.11.0", True),
        ("3.12", "~=3.11.0", False),
        ("2.43.0.windows.1", ">=2.30", True),
        ("3.13.0rc1", ">=3.13", True),
        ("v18.1.0", "!=18.1", False),
        ("", ">=0", False),
        ("unknown", ">=0", False),
        ("3.11", "3.11", False),
        ("3.11", ">=", False),
        ("3.11", "", False),
    ],
)
def test_constraints_mean_what_authors_expect(version: str, constraint: str, *, expected: bool) -> None:
    assert meets(version, constraint) is expected


@given(_VERSIONS, _VERSIONS)
def test_comparisons_are_those_of_the_padded_numbers(left: str, right: str) -> None:
    length = max(left.count("."), right.count(".")) + 1
    numbers = [tuple([*map(int, text.split(".")), *[0] * length][:length]) for text in (left, right)]
    found, wanted = numbers
    assert meets(left, f">={right}") == (found >= wanted)
    assert meets(left, f"<={right}") == (found <= wanted)
    assert meets(left, f">{right}") == (found > wanted)
    assert meets(left, f"<{right}") == (found < wanted)
    assert meets(left, f"=={right}") == (found == wanted)
    assert meets(left, f"!={right}") == (found != wanted)


@given(_VERSIONS, _PARTS.filter(lambda parts: len(parts) > 1))
def test_compatible_release_is_a_lower_bound_and_a_prefix(version: str, wanted: list[int]) -> None:
    text = ".".join(map(str, wanted))
    upper = ".".join(map(str, [*wanted[:-2], wanted[-2] + 1]))
    assert meets(version, f"~={text}") == meets(version, f">={text},<{upper}")


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_is_too_strange(version: str, constraint: str) -> None:
    assert meets(version, constraint) in {True, False}


def test_endless_numbers_are_no_versions() -> None:
    assert parse_version("9" * 5000) is None or parse_version("9" * 5000) == (int("9" * 100),)
