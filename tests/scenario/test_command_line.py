"""The command as a process: exit codes, encodings, pipes, terminals, signals and shells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from repotrial import __version__
from support.command_line import (
    COMMAND,
    Ended,
    call,
    converse,
    environment,
    execute,
    start,
    without_our_styles,
)
from support.repositories import RepositoryMaker
from support.run_directories import build_run
from support.traces import write_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars"
LONG_TRACE_EVENTS = 4000
"""More lines than a pipe holds."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_run(tmp_path_factory.mktemp("runs") / "run").root


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs") / "long"
    write_trace(root, LONG_TRACE_EVENTS)
    return root


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with one merged change."""
    maker = RepositoryMaker(tmp_path_factory.mktemp("source") / "app")
    test = "from app import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
    maker.commit(
        {
            "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n',
            "app/__init__.py": "def double(n):\n    return n + 2\n",
            "tests/test_double.py": test,
        },
        message="Start",
    )
    maker.commit(
        {
            "app/__init__.py": "def double(n):\n    return n * 2\n",
            "tests/test_double.py": test + "\n\ndef test_three():\n    assert double(3) == 6\n",
        },
        message="double(3) gives 5\n\nCalling double with 3 gives 5. It must give 6.",
    )
    return maker.path


class TestExitCodes:
    def test_done(self) -> None:
        assert execute("--version") == (0, f"repotrial {__version__}\n", "")

    def test_does_not_hold(self, run: Path) -> None:
        assert execute("run", "verify", run, "--integrity-only").status == 1

    def test_bad_input(self, tmp_path: Path) -> None:
        assert execute("contract", "check", tmp_path / "nowhere").status == 2

    def test_the_machine_cannot(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        ended = execute("trace", "key", "show", "--key-file", tmp_path / "file" / "key.pem")
        assert ended.status == 3
        assert "fix: " in ended.err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_what_may_not_be_read_is_named_and_the_rest_is_checked(self, tmp_path: Path) -> None:
        closed = tmp_path / "closed"
        (closed / "inner").mkdir(parents=True)
        closed.chmod(0)
        try:
            ended = execute("contract", "check", closed, closed / "inner", EXAMPLE)
        finally:
            closed.chmod(0o700)
        assert ended.status == 2
        assert "no permission" in ended.out
        assert "cannot be reached (Permission denied)" in ended.err
        assert f"sound   {EXAMPLE}" in ended.out

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user that the system does not know")
    def test_a_user_without_a_home_is_told(self) -> None:
        # Loaded before the change of user: the interpreter may be closed to others.
        script = (
            "import os, pwd, repotrial.api, repotrial.cli._output, repotrial.cli._trace as trace\n"
            "repotrial.api.show_key  # a front loads what is used\n"
            "for name in ('HOME', 'XDG_CONFIG_HOME'): os.environ.pop(name, None)\n"
            "os.setgroups([]); os.setgid(61234); os.setuid(61234)\n"
            "try: trace.show_key()\n"
            "except trace.HOME_UNKNOWN.kind as error: print(error.hint)\n"
        )
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, env=environment(), capture_output=True, check=True, timeout=60, text=True
        )
        assert done.stdout.startswith("name the key with --key-file")


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-16"])
    @pytest.mark.parametrize("words", [["run", "show"], ["run", "verify"]])
    def test_no_encoding_ends_in_a_traceback(self, encoding: str, words: list[str], run: Path) -> None:
        ended = _execute_raw(*words, run, env={"PYTHONIOENCODING": encoding})
        assert ended.returncode in {0, 1}
        assert b"Traceback" not in ended.stderr
        assert "act" in ended.stdout.decode(encoding) or words[1] == "verify"

    def test_arrows_are_spelled_where_they_cannot_be_shown(self, run: Path) -> None:
        ended = execute("run", "show", run, "--type", "phase-changed", env={"PYTHONIOENCODING": "ascii"})
        assert "brief \\u2192 act" in ended.out

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
    def test_json_is_json_in_every_encoding(self, encoding: str) -> None:
        ended = _execute_raw("contract", "show", EXAMPLE, "--json", env={"PYTHONIOENCODING": encoding})
        assert "吾輩は猫である" in json.loads(ended.stdout.decode(encoding))["statement"]

    @pytest.mark.parametrize("words", [["contract", "show", EXAMPLE], ["contract", "schema"], ["--help"]])
    def test_the_plain_locale(self, words: list[str | Path]) -> None:
        plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        ended = execute(*words, env=plain)
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.isascii()

    def test_a_directory_name_that_is_not_utf_8(self, tmp_path: Path) -> None:
        place = tmp_path / os.fsdecode(b"caf\xe9")
        place.mkdir()
        ended = execute("contract", "check", place)
        assert ended.status == 1
        assert "caf\\udce9/contract.toml: error[file-missing]" in ended.out
        (entry,) = json.loads(execute("contract", "check", place, "--json").out)
        assert os.fsencode(entry["directory"]) == os.fsencode(place)


def _execute_raw(*words: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words], env=environment(env), capture_output=True, check=False, timeout=60
    )


@pytest.mark.parametrize("name", ["contract", "retrieval-events-1.1", "score", "trace"])
def test_a_schema_is_printed_as_it_is_published(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    published = Path(__file__).parents[2] / "schemas" / f"{name}.schema.json"
    assert call(capsys, "contract", "schema", name).out == published.read_text(encoding="utf-8")


class TestPipes:
    def test_a_long_trace_streams_and_ends_quietly_when_nobody_reads_on(self, long_run: Path) -> None:
        words = ("run", "show", long_run, "--timeline")
        with start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = _streams(process)
            first = out.readline()
            assert process.poll() is None, "the pipe is full, so the rest cannot have been read yet"
            out.close()
            assert err.read() == b""
        assert first.split()[2:4] == [b"harness", b"run-opened"]
        assert process.returncode == 141

    @pytest.mark.parametrize(
        "words",
        [["error", "list"], ["error", "list", "--json"], ["--help"], ["--version"], ["contract", "schema"]],
    )
    def test_a_reader_that_is_gone_is_no_fault(self, words: list[str]) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        ended = execute(*words, stdout=writing)
        os.close(writing)
        assert (ended.status, ended.err) == (141, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    @pytest.mark.parametrize("words", [["error", "list"], ["error", "list", "--json"], ["--version"]])
    def test_a_full_disk_is_the_machines_fault(self, words: list[str]) -> None:
        with Path("/dev/full").open("wb") as full:
            ended = execute(*words, stdout=full)
        assert ended.status == 3
        assert "error[system-refused]" in ended.err
        assert "No space left on device" in ended.err
        assert "Traceback" not in ended.err
        assert "Exception ignored" not in ended.err

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_errors_that_nobody_hears_keep_their_exit_code(self) -> None:
        with Path("/dev/full").open("wb") as full:
            assert execute("error", "show", "nonsense", stderr=full).status == 2

    @pytest.mark.parametrize(
        ("redirection", "words", "status"),
        [
            (">&-", "error list", 0),
            (">&-", "error list --json", 0),
            ("2>&-", "error show x", 2),
            ("<&-", "contract new x", 2),
        ],
    )
    def test_closed_streams(self, redirection: str, words: str, status: int) -> None:
        script = f'"$0" -m repotrial {words} {redirection}'
        done = subprocess.run(
            ["sh", "-c", script, sys.executable],
            env=environment(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == status
        assert b"Traceback" not in done.stderr

    def test_output_to_a_file_has_no_colors(self, run: Path) -> None:
        assert "\x1b" not in execute("run", "show", run).out

    def test_colors_can_be_forced_and_forbidden(self, run: Path) -> None:
        assert "\x1b[" in execute("run", "show", run, env={"FORCE_COLOR": "1"}).out
        plain = converse("contract", "check", EXAMPLE, env={"TERM": "dumb"})
        assert "\x1b" not in plain.out
        bold_only = converse("contract", "check", EXAMPLE, env={"NO_COLOR": "1"})
        assert "\x1b[1m" in bold_only.out
        assert "\x1b[1;32m" not in bold_only.out


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout, process.stderr


class TestInterruption:
    def test_ctrl_c_ends_with_130(self, long_run: Path) -> None:
        words = ("run", "show", long_run, "--timeline")
        with start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, _ = _streams(process)
            out.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Traceback" not in err

    @pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
    def test_leaving_the_interview_leaves_nothing_behind(
        self, key: str, repository: Path, tmp_path: Path
    ) -> None:
        ended = converse(
            "contract",
            "new",
            "mine",
            answers=[("Repository", f"{repository}\n"), ("merged change", "\n"), ("Title", key)],
            cwd=tmp_path,
        )
        assert ended.status == 130
        assert ended.out.endswith("stopped: nothing was written\n")
        assert list(tmp_path.iterdir()) == []


class TestInterview:
    def test_everything_is_asked_for(self, repository: Path, tmp_path: Path) -> None:
        ended = converse(
            "contract",
            "new",
            answers=[
                ("Directory to write [new-contract]", "mine\n"),
                ("Repository: path, URL or bundle [.]", f"{repository}\n"),
                ("Commit of a merged change [none: start from scratch]", "\n"),
                ("Title, one line for people", "\n"),
                ("Title, one line for people", "double(3) gives 5\n"),
                ("Id [made from the title]", "double-three\n"),
                ("Kind of work", "chore\n"),
                ("expected one of bug-fix, refactor", ""),
                ("Kind of work", "feature\n"),
            ],
            cwd=tmp_path,
        )
        assert ended.status == 0
        assert "next: edit statement.md" in without_our_styles(ended.out)
        shown = json.loads(execute("contract", "show", tmp_path / "mine", "--json").out)["contract"]
        assert (shown["id"], shown["title"], shown["kind"]) == (
            "double-three",
            "double(3) gives 5",
            "feature",
        )

    def test_enter_takes_what_stands_in_brackets(self, repository: Path, tmp_path: Path) -> None:
        place = tmp_path / "mine"
        questions = ["Repository", "merged change", "Id", "Kind of work"]
        ended = converse(
            "contract",
            "new",
            place,
            answers=[(question, "HEAD\n" if question == "merged change" else "\n") for question in questions],
            cwd=repository,
        )
        assert ended.status == 0
        assert (place / "reference.patch").exists()
        contract = json.loads(execute("contract", "show", place, "--json").out)["contract"]
        assert contract["title"] == "double(3) gives 5"

    def test_flags_are_not_asked_for_again(self, repository: Path, tmp_path: Path) -> None:
        ended = converse("contract", "new", tmp_path / "mine", "-r", repository, "--title", "A title here")
        assert ended.status == 0
        assert "[" not in ended.out.splitlines()[0].replace("\x1b[", "")

    def test_only_what_is_needed_is_asked_for(self, repository: Path, tmp_path: Path) -> None:
        ended = converse(
            "contract", "new", tmp_path / "mine", "-r", repository, answers=[("Title", "A title here\n")]
        )
        assert ended.status == 0
        assert "Kind of work" not in ended.out

    def test_json_asks_nothing(self, tmp_path: Path) -> None:
        ended = converse("contract", "new", tmp_path / "mine", "--json")
        assert ended.status == 2
        assert json.loads(ended.out)["error"]["code"] == "contract-new-missing-answer"


class TestNewContract:
    def test_from_a_commit_to_a_lock(self, repository: Path, tmp_path: Path) -> None:
        place = tmp_path / "mine"
        words = [
            "--from-commit",
            "HEAD",
            "--no-try",
            "--embed",
            "--ecosystem",
            "python",
            "--id",
            "double-three",
        ]
        ended = execute("contract", "new", place, "--repository", repository, *words)
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.startswith(f"written: {place}\n  double-three: double(3) gives 5\n")
        assert execute("contract", "lock", place).status == 0
        assert execute("contract", "check", place).status == 0

    def test_what_was_made_as_json(self, repository: Path, tmp_path: Path) -> None:
        ended = execute(
            "contract", "new", tmp_path / "mine", "-r", repository, "--title", "A title here", "--json"
        )
        assert (ended.status, ended.err) == (0, "")
        assert json.loads(ended.out)["files"] == ["checks/tests.json", "contract.toml", "statement.md"]

    def test_an_ecosystem_can_be_told(self, repository: Path, tmp_path: Path) -> None:
        place = tmp_path / "mine"
        words = ["--title", "A title here", "--ecosystem", "go"]
        assert execute("contract", "new", place, "-r", repository, *words).status == 0
        assert "go test" in (place / "contract.toml").read_text()


BASH = shutil.which("bash")


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_every_shell_has_a_script(self, shell: str) -> None:
        ended = execute("--show-completion", shell)
        assert (ended.status, ended.err) == (0, "")
        assert f"_REPOTRIAL_COMPLETE=complete_{shell}" in ended.out

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            (
                "repotrial ",
                {
                    *("agent", "archive", "cache", "contract", "doctor", "error", "fleet", "image", "pilot"),
                    *("report", "retrieval", "run", "sandbox", "suite", "trace"),
                },
            ),
            ("repotrial con", {"contract"}),
            ("repotrial run s", {"score", "show", "start", "summary"}),
            ("repotrial run v", {"verify"}),
            ("repotrial trace key s", {"show"}),
            ("repotrial run verify --i", {"--integrity-only"}),
            ("repotrial contract new --ki", {"--kind"}),
            ("repotrial contract new --ecosystem r", {"rust"}),
            ("repotrial contract schema cont", {"contract"}),
            ("repotrial error show run-directory-", {"run-directory-missing"}),
            ("repotrial run show x --type term", {"termination"}),
            ("repotrial contract check ", set()),
        ],
    )
    def test_nouns_verbs_options_and_values_are_completed(self, line: str, expected: set[str]) -> None:
        assert set(_complete(line).out.split()) == expected

    @pytest.mark.skipif(BASH is None, reason="needs bash")
    def test_bash_takes_the_script(self, tmp_path: Path) -> None:
        assert BASH is not None
        command = tmp_path / "repotrial"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m repotrial "$@"\n')
        command.chmod(0o755)
        script = (
            'eval "$(repotrial --show-completion bash)"; complete -p repotrial;'
            "COMP_WORDS=(repotrial run v); COMP_CWORD=2;"
            "_repotrial_completion repotrial; echo ${COMPREPLY[@]}"
        )
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(
            [BASH, "--norc", "-c", script], env=environment(path), capture_output=True, check=True, timeout=60
        )
        registered, completed = done.stdout.decode().splitlines()
        assert registered == "complete -o default -F _repotrial_completion repotrial"
        assert completed == "verify"

    def test_an_unknown_shell_is_bad_usage(self) -> None:
        ended = execute("--show-completion", "tcsh")
        assert ended.status == 2
        assert "'tcsh' is not one of 'bash', 'zsh'" in ended.err


def _complete(line: str) -> Ended:
    words = line.split()
    number = len(words) if line.endswith(" ") else len(words) - 1
    variables = {"_REPOTRIAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(number)}
    return execute(env=variables)
