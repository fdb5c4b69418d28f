from __future__ import annotations

import pytest

from repotrial.authoring._ecosystem import ECOSYSTEMS, build_test_command, guess_ecosystem

_BY_NAME = {ecosystem.name: ecosystem for ecosystem in ECOSYSTEMS}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["README.md", "pyproject.toml"], ("python", "pyproject.toml")),
        (["setup.cfg", "Makefile"], ("python", "setup.cfg")),
        (["package.json"], ("javascript", "package.json")),
        (["Cargo.toml", "Makefile"], ("rust", "Cargo.toml")),
        (["go.mod", "package.json"], ("go", "go.mod")),
        (["configure.ac", "Makefile.am"], ("c", "configure.ac")),
        (["CMakeLists.txt"], ("c", "CMakeLists.txt")),
        (["Makefile"], ("c", "Makefile")),
    ],
)
def test_files_at_the_top_give_the_ecosystem_away(names: list[str], expected: tuple[str, str]) -> None:
    guess = guess_ecosystem(names)
    assert guess is not None
    assert (guess[0].name, guess[1]) == expected


def test_an_unknown_project_is_not_guessed() -> None:
    assert guess_ecosystem(["README.md", "main.zig"]) is None


@pytest.mark.parametrize(
    ("name", "texts", "start", "format_"),
    [
        ("python", {}, "python -m pytest", "junit"),
        ("rust", {}, "cargo test", "libtest"),
        ("go", {}, "go test -json", "go-test-json"),
        ("javascript", {"package.json": "{}"}, "node --test", "junit"),
        (
            "javascript",
            {"package.json": '{"scripts": {"test": "vitest"}}'},
            "npx --no-install vitest",
            "junit",
        ),
        ("javascript", {"package.json": '{"scripts": {"test": "jest"}}'}, "npm test", None),
        ("javascript", {"package.json": "not json"}, "node --test", "junit"),
        ("javascript", {"package.json": '{"scripts": 7}'}, "node --test", "junit"),
        ("c", {"CMakeLists.txt": ""}, "cmake -S", "junit"),
        ("c", {"configure.ac": ""}, "autoreconf", None),
        ("c", {"configure.ac": "", "configure": ""}, "./configure", None),
        ("c", {"Makefile": "check: all\n"}, "make check", None),
        ("c", {"Makefile": "test: all\n"}, "make test", None),
    ],
)
def test_each_ecosystem_has_a_usual_command(
    name: str, texts: dict[str, str], start: str, format_: str | None
) -> None:
    ecosystem = next(item for item in ECOSYSTEMS if item.name == name)
    command = build_test_command(ecosystem, texts)
    assert command.run.startswith(start)
    assert [result.format for result in command.results] == ([] if format_ is None else [format_])
    assert command.reason


def test_file_names_cannot_become_commands() -> None:
    command = build_test_command(_BY_NAME["python"], {}, test_files=["tests/test_$(id).py", "-x/test_a b.py"])
    assert command.run.endswith("'tests/test_$(id).py' './-x/test_a b.py'")


def test_data_files_are_not_given_to_pytest() -> None:
    command = build_test_command(_BY_NAME["python"], {}, test_files=["tests/data.txt", "tests/conftest.py"])
    assert command.run.endswith('junit.xml"')


def test_very_many_files_are_not_listed() -> None:
    files = [f"tests/test_number_{number}.py" for number in range(1000)]
    assert len(build_test_command(_BY_NAME["python"], {}, test_files=files).run) < 200
