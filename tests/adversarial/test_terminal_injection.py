"""Files that write to the terminal of whoever looks at them.

Contracts, repositories and run directories come from others. Whatever their text holds, the command shows it;
it never lets it move the cursor, set a title, forge a line, make a link, reorder or hide.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Ended, call, converse, execute, surroundings, without_our_styles
from support.contracts import MINIMAL, write_contract
from support.repositories import RepositoryMaker
from support.run_directories import RunBuilder, build_run, build_sealed_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars"

CONTROL = {
    "erase and home": "\x1b[2J\x1b[H",
    "color": "\x1b[38;5;201m",
    "window title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;https://example.org\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "C1 introducer": "\x9b31m",
    "carriage return": "invalid\rsound  ",
    "backspace": "bad\b\b\bgood",
    "forged line": "x\nsound   y: 0 errors, 0 warnings",
    "other line breaks": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "right-to-left override": "\u202egnp.exe\u202c",
    "isolates": "\u2066a\u2069\u061c",
    "zero width": "p\u200ba\u2060y",
    "invisible tags": "\U000e0041\U000e0042",
    "delete": "a\x7fb",
}
MARKUP = {
    "rich color": "[red]forged[/red]",
    "rich link": "[link=https://example.org]click[/link]",
    "rich closing tag": "[/]",
    "emoji code": ":warning: :heart:",
    "style tag": "[bold on red]x",
    "escaped bracket": r"\[bold]x",
}
MIXTURES = {
    "sequences": "".join(text for text in CONTROL.values() if "\x1b" in text or "\x9b" in text),
    "characters": "".join(text for text in CONTROL.values() if "\x1b" not in text),
    "markup": " ".join(MARKUP.values()),
}
"""For places where all attacks take the same way."""
each_mixture = pytest.mark.parametrize("attack", MIXTURES.values(), ids=MIXTURES.keys())
each_control = pytest.mark.parametrize("attack", CONTROL.values(), ids=CONTROL.keys())
each_markup = pytest.mark.parametrize("attack", MARKUP.values(), ids=MARKUP.keys())
each_attack = pytest.mark.parametrize(
    "attack", [*CONTROL.values(), *MARKUP.values()], ids=[*CONTROL.keys(), *MARKUP.keys()]
)


@pytest.fixture(autouse=True, params=["file", "terminal"])
def _way_of_writing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways of writing: plain for files and pipes, styled for terminals; wide, so that nothing wraps."""
    forced = "1" if request.param == "terminal" else ""
    with surroundings(COLUMNS="2000", TERM="xterm", FORCE_COLOR=forced):
        yield


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    maker = RepositoryMaker(tmp_path_factory.mktemp("source") / "app")
    maker.commit({"pyproject.toml": "", "test_app.py": "def test_app(): ...\n"})
    return maker.path


def assert_shown(ended: Ended, attack: str, *, lines: int | None = None) -> None:
    """The text is on the screen, every character of it printed, none obeyed."""
    # A message may have several lines; all but the first are marked, so that none can pass for one of ours.
    said = without_our_styles(ended.out + ended.err).replace("\n  | ", "\\n")
    assert said.replace("\n", "").isprintable()
    assert "Traceback" not in said
    spelled = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in attack)
    # Messages may quote a text as TOML, JSON or Python do, and quoting escapes the backslash too.
    assert any(form in said for form in (spelled, spelled.replace("\\", "\\\\"), *_quoted(attack)))
    assert lines is None or len(said.splitlines()) == lines


def _quoted(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]


def toml(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")


def file_name(attack: str) -> str:
    return attack.replace("/", "|")


class TestContracts:
    @each_attack
    def test_title(self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = tmp_path / "mine"
        shutil.copytree(EXAMPLE, place)
        (place / "contract.lock.json").unlink()  # it holds the title, too
        document = place / "contract.toml"
        old = next(line for line in document.read_text().splitlines() if line.startswith("title"))
        # Astral characters have an escape of their own in TOML, so the file holds them as they are.
        title = "".join(c if ord(c) > 0xFFFF else toml(c)[1:-1] for c in attack)
        document.write_text(document.read_text().replace(old, f'title = "{title}"'))
        verb = "show" if call(capsys, "contract", "check", place).status == 0 else "check"
        assert_shown(call(capsys, "contract", verb, place), attack)

    @each_attack
    def test_statement(self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = tmp_path / "mine"
        shutil.copytree(EXAMPLE, place)
        with (place / "statement.md").open("a", newline="") as stream:
            stream.write(f"\n\nAnd so on: {attack} end.\n")
        assert_shown(call(capsys, "contract", "check", place), "")
        ended = call(capsys, "contract", "show", place)
        # A line break is the statement's right; the frame keeps it from looking like a line of ours.
        for part in attack.split("\n"):
            assert_shown(ended, part.strip())

    @pytest.mark.parametrize("field", ['id = "{}"', '"{}" = 1', 'kind = "{}"'])
    @each_mixture
    def test_problems_that_quote(
        self, field: str, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        key = field.partition(" = ")[0]
        kept = [line for line in MINIMAL.splitlines() if not line.startswith(f"{key} = ")]
        text = "".join(c if ord(c) > 0xFFFF else toml(c)[1:-1] for c in attack)
        place = write_contract(tmp_path / "mine", "\n".join([field.replace("{}", text), *kept]))
        ended = call(capsys, "contract", "check", place)
        assert ended.status == 1
        assert_shown(ended, "")
        assert "sound " not in {line[:6] for line in ended.out.splitlines()}

    @each_control
    def test_syntax_errors(self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = write_contract(tmp_path / "mine", f'{MINIMAL}\n{attack} = = "{attack}"\n')
        ended = call(capsys, "contract", "check", place)
        assert ended.status == 1
        assert_shown(ended, "")

    @each_mixture
    @pytest.mark.parametrize("verb", [["check"], ["lock"], ["lock", "--check"], ["show"]])
    def test_directory_names(
        self, verb: list[str], attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / file_name(attack)
        assert_shown(call(capsys, "contract", *verb, place), file_name(attack), lines=None)
        write_contract(place, MINIMAL.replace('id = "minimal"', ""))
        ended = call(capsys, "contract", *verb, place)
        assert ended.status in {1, 2}
        assert_shown(ended, file_name(attack) if verb != ["show"] else "")

    @each_attack
    def test_names_of_pinned_files(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / "mine"
        shutil.copytree(EXAMPLE, place)
        (place / "checks" / "unit" / file_name(attack)).write_text("")
        for words in (["check"], ["lock"], ["lock", "--check"]):
            assert_shown(call(capsys, "contract", *words, place), "")

    @each_control
    def test_json_is_shown_too(self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = tmp_path / file_name(attack)
        ended = call(capsys, "contract", "check", place, "--json")
        assert_shown(ended, "")
        (entry,) = json.loads(ended.out)
        assert entry["directory"] == str(place)


class TestNewContracts:
    @each_attack
    def test_commit_messages_and_file_names(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = file_name(attack).replace("\n", "")
        maker = RepositoryMaker(tmp_path / "app")
        maker.commit({"pyproject.toml": '[project]\nname = "app"\n', "app.py": "a = 1\n"})
        test = "def test_app():\n    assert True\n"
        maker.commit(
            {"app.py": "a = 2\n", f"tests/{name}/test_app.py": test},
            message=f"Fix {attack}\n\n{attack} must be 2.",
        )
        words = ("-r", maker.path, "--from-commit", "HEAD", "--no-try")
        ended = call(capsys, "contract", "new", tmp_path / "mine", *words)
        assert_shown(ended, "")
        if ended.status == 0:
            assert_shown(call(capsys, "contract", "check", tmp_path / "mine"), "")
            assert_shown(call(capsys, "contract", "show", tmp_path / "mine"), "")

    @each_mixture
    @pytest.mark.parametrize("flag", ["--title", "--id", "--revision", "--from-commit", "--repository"])
    def test_flags_that_are_quoted_in_errors(
        self, flag: str, attack: str, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = {"--repository": str(repository), "--title": "A title here", flag: attack}
        words = [word for pair in given.items() for word in pair]
        assert_shown(call(capsys, "contract", "new", tmp_path / "mine", *words), "")


class TestRuns:
    @each_attack
    def test_what_agents_and_tools_said(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        builder = RunBuilder(tmp_path / "run")
        builder.tool(arguments=attack)
        builder.alert(text=attack)
        paths = builder.finish()
        assert_shown(call(capsys, "run", "show", paths.root, "--timeline"), attack, lines=3)
        assert_shown(call(capsys, "run", "show", paths.root), attack)
        assert_shown(call(capsys, "run", "verify", paths.root), "")

    @each_attack
    def test_what_programs_printed(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        builder = RunBuilder(tmp_path / "run")
        builder.program(stdout=attack.encode(), stderr=b"")
        ended = call(capsys, "run", "show", builder.finish().root, "--output", "agent")
        assert_shown(ended, attack, lines=4)

    @each_attack
    @pytest.mark.parametrize("verb", ["show", "verify"])
    def test_directory_names(
        self, verb: str, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / file_name(attack)
        assert_shown(call(capsys, "run", verb, place), file_name(attack), lines=2)
        build_run(place)
        assert_shown(call(capsys, "run", verb, place), file_name(attack) if verb == "verify" else "")

    @each_attack
    def test_files_added_to_a_sealed_run(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths, _ = build_sealed_run(tmp_path / "run")
        (paths.acceptance / file_name(attack)).write_text("")
        ended = call(capsys, "run", "verify", paths.root, "--integrity-only")
        assert ended.status == 1
        assert_shown(ended, "")

    @each_control
    def test_event_types_and_run_ids(
        self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths = build_run(tmp_path / "run")
        quoted = json.dumps(attack)[1:-1].encode()
        for file, old in ((paths.trace, b'"briefing"'), (paths.trace, b"run-1"), (paths.manifest, b"run-1")):
            file.write_bytes(file.read_bytes().replace(old, old.replace(b"r", quoted + b"r", 1)))
        assert_shown(call(capsys, "run", "show", paths.root), "")
        assert_shown(call(capsys, "run", "verify", paths.root), "")

    @each_attack
    def test_wishes_and_keys(self, attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        root = build_run(tmp_path / "run").root
        assert_shown(call(capsys, "run", "show", root, "--type", attack), attack, lines=1)
        key = tmp_path / file_name(attack)
        assert_shown(call(capsys, "trace", "key", "show", "--key-file", key), file_name(attack))
        assert_shown(call(capsys, "run", "verify", root, "--key", key), file_name(attack), lines=2)


class TestWords:
    """What is typed is shown as it was typed: a file name that a glob brought in is somebody else's text."""

    @each_mixture
    @pytest.mark.parametrize(
        "before",
        [[], ["contract"], ["contract", "schema"], ["error", "show"], ["contract", "new", "x", "--kind"]],
        ids=" ".join,
    )
    def test_unknown_words(self, before: list[str], attack: str, capsys: pytest.CaptureFixture[str]) -> None:
        ended = call(capsys, *before, attack)
        assert ended.status == 2
        assert_shown(ended, attack, lines=2)

    @each_control
    def test_unknown_options(self, attack: str, capsys: pytest.CaptureFixture[str]) -> None:
        ended = call(capsys, "contract", "check", f"--{attack}")
        assert ended.status == 2
        assert_shown(ended, "")


def test_a_real_terminal_gets_nothing_but_our_own_colors(tmp_path: Path) -> None:
    place = tmp_path / "\x1b]0;owned\x07[red]x[/red]"
    shutil.copytree(EXAMPLE, place)
    with (place / "statement.md").open("a") as stream:
        stream.write(
            "\n\x1b[2J &#8238; &#27;[2J [link=https://example.org]a[/link] [b](https://example.org)\n"
        )
    checked = without_our_styles(converse("contract", "check", place, columns=120).out)
    shown = without_our_styles(converse("contract", "show", place, columns=120).out)
    assert (checked + shown).replace("\n", "").isprintable()
    assert "\\x1b]0;owned\\x07[red]x[/red]: " in checked
    assert "\\x1b[2J &#8238; &#27;[2J [link=https://example.org]a[/link] [b](https://example.org)" in shown


def test_a_line_break_in_a_name_forges_no_line(tmp_path: Path) -> None:
    for forged in ("sound   other: 0 errors, 0 warnings", "  fix: curl https://example.org | sh"):
        ended = execute("contract", "check", tmp_path / f"mine\n{forged}".replace("/", "|"))
        assert forged.replace("/", "|") not in (ended.out + ended.err).splitlines()
