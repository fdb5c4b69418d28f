"""Hidden acceptance tests: what the pages say is what the package does. Pages are read here and run elsewhere."""

import ast
import doctest
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/reference.md", "docs/command.md", "docs/settings.md"]
HEADINGS = {
    "README.md": ["# lapse", "## Retries", "## More"],
    "docs/reference.md": ["# Reference", "## Units", "## parse", "## render", "## backoff", "## Errors"],
    "docs/command.md": ["# Command", "## Options", "## Exit status"],
    "docs/settings.md": ["# Settings"],
}
MODULES = ["", "lapse.duration.", "builtins."]
LEAST_EXAMPLES = {"README.md": 5, "docs/reference.md": 12}


def read(page):
    return (ROOT / page).read_text("utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), flags=re.MULTILINE | re.DOTALL)


def examples(page):
    parser = doctest.DocTestParser()
    return [example for block in blocks(page, "python") for example in parser.get_examples(block)]


def rows(page, heading):
    """The cells of the table under a heading, without its head."""
    part = read(page).split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [tuple(cell.strip().strip("`") for cell in line.strip("|").split("|")) for line in lines[2:]]


def package(code):
    """What a line of Python prints with the package at hand."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", ["README.md", "docs/reference.md"])
def test_examples_give_what_the_page_shows(page):
    found = examples(page)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("example_process.py"))],
        input=json.dumps([example.source for example in found]),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = json.loads(done.stdout)
    assert len(answers) == len(found)
    for example, answer in zip(found, answers, strict=True):
        # An exception may be shown with or without its module.
        shown = [example.want] if example.exc_msg is None else [f"{module}{example.exc_msg.strip()}" for module in MODULES]
        assert (example.source, answer) in [(example.source, text) for text in shown]


@pytest.mark.parametrize("page", ["README.md", "docs/reference.md"])
def test_pages_keep_their_examples(page):
    assert len(examples(page)) >= LEAST_EXAMPLES[page]


@pytest.mark.parametrize("page", ["README.md", "docs/reference.md"])
def test_examples_need_nothing_but_the_package(page):
    for example in examples(page):
        for node in ast.walk(ast.parse(example.source)):
            assert not isinstance(node, ast.Import)
            if isinstance(node, ast.ImportFrom):
                assert node.module is not None
                assert node.module.split(".")[0] == "lapse"


def test_every_function_has_an_example_of_its_use():
    public = package("import json, lapse; print(json.dumps(lapse.__all__))")
    called = {
        node.func.id
        for page in ("README.md", "docs/reference.md")
        for example in examples(page)
        for node in ast.walk(ast.parse(example.source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {name for name in public if name.islower()} <= called


def test_the_reference_has_a_section_for_split():
    assert re.search(r"^## split$", read("docs/reference.md"), flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_headings_are_still_there(page):
    found = re.findall(r"^#+ .*$", read(page), flags=re.MULTILINE)
    assert [heading for heading in found if heading in HEADINGS[page]] == HEADINGS[page]


def test_the_table_of_units_is_true():
    units = package("import json, lapse.units; print(json.dumps(lapse.units.UNITS))")
    assert [(symbol, float(seconds)) for symbol, seconds in rows("docs/reference.md", "## Units")] == list(units.items())


def test_the_table_of_options_is_true():
    code = """
import argparse, json
from lapse.cli import build_parser
parser = build_parser()
found = [("all", "--config", None)]
[commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
for name, command in commands.choices.items():
    found += [(name, action.option_strings[0], action.default) for action in command._actions
              if action.option_strings and action.dest != "help"]
print(json.dumps(found))
"""
    expected = [(command, option, "none" if value is None else str(value)) for command, option, value in package(code)]
    assert sorted(rows("docs/command.md", "## Options")) == sorted(expected)


def test_every_exit_status_is_listed():
    assert [status for status, _ in rows("docs/command.md", "## Exit status")] == ["0", "2", "3", "4"]


def test_the_exit_status_of_bad_durations_and_of_bad_settings_is_told_apart():
    told = dict(rows("docs/command.md", "## Exit status"))
    assert "duration" in told.get("3", "")
    assert "setting" in told.get("4", "")


def test_the_commands_of_the_page_print_what_it_shows():
    [session] = blocks("docs/command.md", "")
    steps = re.findall(r"^\$ lapse (.*)\n((?:(?!\$ ).*\n)*)", session, flags=re.MULTILINE)
    assert len(steps) >= 4
    for command, shown in steps:
        done = subprocess.run(
            [sys.executable, "-m", "lapse", *shlex.split(command)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (command, done.stdout) == (command, shown)


def test_the_settings_of_the_page_are_those_that_hold_anyway():
    [sample] = blocks("docs/settings.md", "toml")
    code = f"""
import dataclasses, json
from lapse.config import load
print(json.dumps([dataclasses.asdict(load({sample!r})), dataclasses.asdict(load(""))]))
"""
    loaded, default = package(code)
    assert loaded == default
    assert all(re.search(rf"^{name} = ", sample, flags=re.MULTILINE) for name in default)


def test_the_page_does_not_say_that_unknown_settings_are_ignored():
    assert "ignored" not in read("docs/settings.md")


@pytest.mark.parametrize("name", ["precision", "mo", "min", "default", "times", "max_backoff"])
def test_names_of_version_1_are_gone(name):
    pattern = rf"--{name}\b|`{name}`|\b{name} ?=|\d{name}\b"
    assert not [page for page in PAGES if re.search(pattern, read(page))]
