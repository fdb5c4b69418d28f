"""Calls of the wire and the programs that ran for them; honest about what cannot be told apart (P14, P23)."""

from __future__ import annotations

from typing import Any

import pytest

from repotrial.policy import ProgramTree, join_calls, read_call
from repotrial.trace import Exited, ExitUnknown, ToolInvocation
from support.breakers import Record
from support.programs import Programs


class Session:
    """An agent at work: its program, and whatever it starts."""

    def __init__(self) -> None:
        self.record = Record()
        self.programs = Programs(self.record.add, now=lambda: self.record.now_us)
        self.agent = self.programs.start("node", "/opt/agent/cli.js")

    def join(self) -> list[Any]:
        tree = ProgramTree()
        for event in self.record.events:
            tree.take(event)
        calls = [
            read_call(event.payload, seq=event.seq, at_us=event.t)
            for event in self.record.events
            if isinstance(event.payload, ToolInvocation)
        ]
        return list(join_calls(calls, tree))

    def run(self, *argv: str, code: int = 0, parent: int | None = None) -> int:
        """A program from its start to its end."""
        number = self.programs.start(*argv, parent=parent or self.agent)
        self.programs.end(number, code)
        return number


@pytest.mark.parametrize(
    "argv",
    [
        ("bash", "-lc", "cd src && pytest -q"),
        ("/bin/sh", "-c", "cd src && pytest -q"),
        ("/bin/bash", "-c", "-l", "source /tmp/snapshot && eval 'cd src && pytest -q' < /dev/null && pwd -P"),
        ("bash", "-c", "set -e\ncd src && pytest -q\n"),
    ],
)
def test_a_shell_that_was_given_the_text_is_the_calls_program(argv: tuple[str, ...]) -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("git", "status")
    shell = session.run(*argv, code=2)
    session.record.shell("cd src && pytest -q", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("words", Exited(code=2))
    assert [program.start.number for program in call.programs] == [shell]
    assert call.wall_us == 1_000_000


def test_quotes_in_the_text_do_not_hide_it() -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("bash", "-c", "eval 'python -c '\"'\"'print(1)'\"'\"''", code=3)
    session.record.shell("python -c 'print(1)'", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("words", Exited(code=3))


def test_a_shell_that_becomes_its_only_command_ends_as_that_command() -> None:
    session = Session()
    since_us = session.record.now_us
    shell = session.programs.start("bash", "-lc", "pytest -q")
    test = session.programs.start("pytest", "-q", replaces=shell)
    session.programs.end(shell, by=test)
    session.programs.end(test, 5)
    session.record.shell("pytest -q", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("words", Exited(code=5))
    assert call.checks == "failed"


def test_the_same_call_twice_has_each_its_own_program() -> None:
    session = Session()
    for code in (1, 0):
        since_us = session.record.now_us
        session.run("bash", "-lc", "pytest -q", code=code)
        session.record.shell("pytest -q", since_us=since_us)
    assert [call.exit for call in session.join()] == [Exited(code=1), Exited(code=0)]


def test_commands_of_a_shell_that_stays_open_are_known_by_their_words() -> None:
    session = Session()
    shell = session.programs.start("bash", "--norc")
    since_us = session.record.now_us
    session.run("/usr/bin/python3", "/opt/env/bin/pytest", "-q", code=1, parent=shell)
    session.record.shell("pytest -q", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("words", Exited(code=1))


def test_several_commands_of_an_open_shell_have_no_status_of_their_own() -> None:
    session = Session()
    shell = session.programs.start("bash", "--norc")
    since_us = session.record.now_us
    session.run("make", "clean", parent=shell, code=2)
    session.run("make", parent=shell)
    session.record.shell("make clean && make", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, len(call.programs)) == ("words", 2)
    assert isinstance(call.exit, ExitUnknown)


def test_the_only_call_under_way_gets_what_started_meanwhile() -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("sh", "/tmp/script-17.sh", code=4)
    session.record.shell("pytest -q", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("time", Exited(code=4))


def test_parallel_calls_without_their_words_are_ambiguous_and_have_no_status() -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("sh", "/tmp/a.sh", code=4)
    session.run("sh", "/tmp/b.sh")
    session.record.shell("pytest a", since_us=since_us)
    session.record.shell("pytest b", since_us=since_us)
    calls = session.join()
    assert {call.basis for call in calls} == {"ambiguous"}
    assert all(isinstance(call.exit, ExitUnknown) for call in calls)


def test_parallel_calls_with_their_words_are_told_apart() -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("sh", "-c", "pytest a", code=4)
    session.run("sh", "-c", "pytest b")
    session.record.shell("pytest b", since_us=since_us)
    session.record.shell("pytest a", since_us=since_us)
    assert [(call.basis, call.exit) for call in session.join()] == [
        ("words", Exited(code=0)),
        ("words", Exited(code=4)),
    ]


def test_equal_parallel_calls_are_ambiguous() -> None:
    session = Session()
    since_us = session.record.now_us
    for code in (0, 1):
        session.run("sh", "-c", "pytest -q", code=code)
    for _ in range(2):
        session.record.shell("pytest -q", since_us=since_us)
    assert {call.basis for call in session.join()} == {"ambiguous"}


def test_a_short_text_is_not_found_inside_another_word() -> None:
    session = Session()
    since_us = session.record.now_us
    session.run("sh", "-c", "false; lsof", code=1)
    session.run("sh", "-c", "ls")
    session.record.shell("ls", since_us=since_us)
    (call,) = session.join()
    assert ([each.start.argv for each in call.programs], call.exit) == (
        [("sh", "-c", "ls")],
        Exited(code=0),
    )


def test_a_tool_that_starts_nothing_takes_no_program() -> None:
    session = Session()
    session.run("git", "status")
    session.record.call("Read", {"file_path": "a.py"})
    (call,) = session.join()
    assert (call.basis, call.programs) == ("none", ())


def test_a_program_whose_end_was_not_seen_has_no_status() -> None:
    session = Session()
    since_us = session.record.now_us
    session.programs.start("sh", "-c", "sleep 100")
    session.record.shell("sleep 100", since_us=since_us)
    (call,) = session.join()
    assert (call.basis, call.exit) == ("words", ExitUnknown(reason="its end was not seen"))


def test_outermost_tests_are_counted_and_what_they_start_is_not() -> None:
    session = Session()
    shell = session.programs.start("bash", "-lc", "timeout 60 pytest -q; make lint")
    wrapper = session.programs.start("timeout", "60", "pytest", "-q", parent=shell)
    test = session.programs.start("python3", "/opt/env/bin/pytest", "-q", parent=wrapper)
    session.run("pytest", "inner", parent=test, code=1)
    session.run("gcc", "-c", "x.c", parent=test)
    session.run("mypy", "src", parent=shell)
    session.run("make", parent=shell)
    install = session.programs.start("pip", "install", "numpy", parent=shell)
    session.run("gcc", "-c", "numpy.c", parent=install)
    tree = ProgramTree()
    for event in session.record.events:
        tree.take(event)
    assert [(found.start.argv[0], found.purpose) for found in tree.list_key_programs()] == [
        ("timeout", "test"),
        ("mypy", "lint"),
        ("make", "build"),
    ]
