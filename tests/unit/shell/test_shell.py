"""Shell scripts as simple commands: quotes, wrappers, nesting, directories, and what cannot be known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.shell import ShellCommand, parse_shell


def _argvs(text: str) -> list[tuple[str, ...]]:
    return [command.argv for command in parse_shell(text).commands]


def _only(text: str) -> ShellCommand:
    (command,) = parse_shell(text).commands
    return command


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("ls -la 'a b' \"c d\" e\\ f", ("ls", "-la", "a b", "c d", "e f")),
        ("r'm' x", ("rm", "x")),
        ("$'\\x6cs' $'a\\tb' $'\\u00e9' $'\\101'", ("ls", "a\tb", "é", "A")),
        ("ls${IFS}-l", ("ls", "-l")),
        ("{cat,a,b}", ("cat", "a", "b")),
        ("cat src/{a,b}.py", ("cat", "src/a.py", "src/b.py")),
        ("cat '{a,b}'", ("cat", "{a,b}")),
        ("l\\\ns x", ("ls", "x")),
        ('echo "a\\"b\\$c\\d"', ("echo", 'a"b$c\\d')),
        ('echo "" x', ("echo", "", "x")),
        ("cat ~/x $HOME/y", ("cat", "~/x", "~/y")),
        ("! grep -q x y", ("grep", "-q", "x", "y")),
    ],
)
def test_words_are_what_the_program_would_see(text: str, argv: tuple[str, ...]) -> None:
    command = _only(text)
    assert command.argv == argv
    assert not command.is_dynamic


def test_known_variables_are_filled_in_and_unknown_ones_marked() -> None:
    first, second = (
        parse_shell('X="a b"; D=${UNKNOWN}; cat $X "$X" $D').commands,
        parse_shell("$Y -l").commands,
    )
    assert [(word.text, word.is_static) for word in first[0].words] == [
        ("cat", True),
        ("a", True),
        ("b", True),
        ("a b", True),
        ("$D", False),
    ]
    assert second[0].is_dynamic


def test_a_variable_before_a_command_is_not_seen_by_its_own_words() -> None:
    command = _only("X=1 echo $X")
    assert command.argv == ("echo", "$X")
    assert [(each.name, each.value and each.value.text) for each in command.assignments] == [("X", "1")]


@pytest.mark.parametrize(
    ("text", "wrappers", "argv"),
    [
        ("sudo -u root -E ls", ("sudo",), ("ls",)),
        ("timeout -s KILL 10 ls", ("timeout",), ("ls",)),
        ("env -u X A=1 ls -l", ("env",), ("ls", "-l")),
        ("nohup nice -n 5 time ls", ("nohup", "nice", "time"), ("ls",)),
        ("command ls", ("command",), ("ls",)),
        ("bash -lc 'ls -l'", ("bash",), ("ls", "-l")),
        ("sh -ec \"sh -c 'ls'\"", ("sh", "sh"), ("ls",)),
        ("eval ls -l", ("eval",), ("ls", "-l")),
        ("uv run --with x pytest -q", ("uv",), ("pytest", "-q")),
        ("npx --yes jest", ("npx",), ("jest",)),
        ("coverage run -m pytest", ("coverage",), ("python", "-m", "pytest")),
        ("flock /tmp/l ls", ("flock",), ("ls",)),
        ("bash <<< 'ls -l'", ("bash",), ("ls", "-l")),
        ("bash -c '$0 $1' ls -l", ("bash",), ("ls", "-l")),
    ],
)
def test_programs_that_only_start_others_are_taken_off(
    text: str, wrappers: tuple[str, ...], argv: tuple[str, ...]
) -> None:
    command = _only(text)
    assert (command.wrappers, command.argv) == (wrappers, argv)


@pytest.mark.parametrize("text", ["command -v ls", "env", "sudo -l", "xargs"])
def test_a_wrapper_without_a_command_is_the_command(text: str) -> None:
    assert _only(text).name == text.split(maxsplit=1)[0]


def test_arguments_that_xargs_and_find_add_are_marked() -> None:
    (_, removed) = parse_shell("ls | xargs rm -f").commands
    assert (removed.wrappers, removed.argv, removed.words[-1].is_static) == (
        ("xargs",),
        ("rm", "-f", "$@"),
        False,
    )
    (_, inner) = parse_shell("find . -exec grep x {} \\;").commands
    assert (inner.wrappers, inner.argv) == (("find",), ("grep", "x", "$@"))


def test_directories_are_followed_into_and_out_of_subshells() -> None:
    text = "cd src && ls; (cd pkg; ls); ls; cd ../tests; ls; cd -; ls; cd $X; ls; cd /etc; ls"
    places = [command.cwd for command in parse_shell(text).commands if command.name == "ls"]
    assert places == ["src", "src/pkg", "src", "tests", "src", None, "/etc"]


def test_pipelines_name_what_feeds_them() -> None:
    script = parse_shell("cat a | sort | uniq -c > out")
    assert [command.sources for command in script.commands] == [(), (0,), (1,)]
    (stream,) = script.commands[2].redirections
    assert stream.target is not None
    assert (stream.kind, stream.target.text) == ("write", "out")


def test_a_redirection_after_a_list_belongs_to_the_last_command() -> None:
    first, last = parse_shell("cd a && ls > out").commands
    assert (len(first.redirections), len(last.redirections)) == (0, 1)


def test_here_documents_are_input_and_the_line_goes_on_after_them() -> None:
    text = "python - <<'EOF' 2>&1 | tail -3\nprint(\"it's\")\nEOF\nls"
    python, tail, ls = parse_shell(text).commands
    assert (python.input_text, python.runs_input) == ('print("it\'s")\n', True)
    assert (tail.argv, tail.sources, ls.argv) == (("tail", "-3"), (0,), ("ls",))


def test_text_in_a_substitution_is_known_where_it_is_simple() -> None:
    echoed, commit = parse_shell('git commit -m "$(cat <<\'EOF\'\na "b"\nEOF\n)"').commands
    assert echoed.argv == ("cat",)
    assert commit.argv == ("git", "commit", "-m", 'a "b"')


def test_substitutions_come_before_the_command_that_uses_them() -> None:
    script = parse_shell("cat $(git ls-files | head -1) <(sort x)")
    assert [command.name for command in script.commands] == ["git", "head", "sort", "cat"]
    assert script.commands[3].substitutions == (0, 1, 2)
    assert script.commands[0].nesting == ("substitution",)


@pytest.mark.parametrize(
    ("text", "is_dynamic"),
    [
        ("curl x | sh", True),
        ('bash -c "$(curl x)"', True),
        ("bash <(curl x)", True),
        ('eval "$X"', True),
        ("$CMD x", True),
        ("echo ls | sh", False),
        ("echo bHM= | base64 -d | sh", False),
        ("cat $X", False),
        ("bash script.sh", False),
    ],
)
def test_what_the_text_does_not_say_is_dynamic(text: str, is_dynamic: bool) -> None:  # noqa: FBT001 -- a column
    assert parse_shell(text).is_dynamic is is_dynamic


def test_loops_over_known_values_are_followed_one_by_one() -> None:
    assert _argvs("for f in a b; do cat $f; done") == [("cat", "a"), ("cat", "b")]
    assert _argvs("for f in *.py; do cat $f; done") == [("cat", "*.py")]
    assert _argvs("for f in $(ls); do cat $f; done") == [("ls",), ("cat", "$f")]


def test_compound_commands_give_up_their_parts() -> None:
    text = (
        "if a; then b; elif c; then d; else e; fi; while f; do g; done < h; case x in i) j;; esac; k() { l; }"
    )
    assert [command.name for command in parse_shell(text).commands] == [*"abcdefg", "", "j", "l"]
    assert [name for name, _, _ in parse_shell(text).functions] == ["k"]


@pytest.mark.parametrize("text", ["ls 'a", 'echo "x', "if true; then ls", "ls )", "a | | b", "<<"])
def test_what_is_no_syntax_is_marked_and_the_rest_is_read(text: str) -> None:
    assert not parse_shell(text).is_complete


def test_places_are_bytes_of_the_whole_text_also_inside_arguments() -> None:
    text = "echo é; bash -c 'ls; rm x'"
    commands = parse_shell(text).commands
    pieces = [text.encode()[command.start : command.end].decode() for command in commands]
    assert pieces == ["echo é", "ls", "rm x"]


def test_background_is_seen() -> None:
    assert [command.is_background for command in parse_shell("a & b").commands] == [True, False]


@given(st.text(alphabet="ab $'\"\\(){}[]|&;<>`#!*~=\n-0", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_makes_the_parser_raise(text: str) -> None:
    script = parse_shell(text)
    length = len(text.encode())
    assert all(0 <= command.start <= command.end <= length for command in script.commands)
    assert all(index < place for place, command in enumerate(script.commands) for index in command.sources)


@given(st.lists(st.text(alphabet="ab $'\"\\{}*;é\n", min_size=1, max_size=8), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in ["prog", *words])
    assert _only(quoted).argv == ("prog", *words)


def test_a_long_script_is_read_in_pieces_and_no_place_moves() -> None:
    lines = [f"echo 'line {number}: it | is (quoted' && cat file{number}.py" for number in range(400)]
    text = "\n".join([*lines, "rm é x"])
    script = parse_shell(text)
    assert script.is_complete
    assert len(script.commands) == 801
    last = script.commands[-1]
    assert text.encode()[last.start : last.end].decode() == "rm é x"
    assert script.commands[2].argv == ("echo", "line 1: it | is (quoted")


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("$(echo -e 'l\\x73') x", ("ls", "x")),
        ("$(echo -n ls) x", ("ls", "x")),
        ("$(printf '%s%s' l s) x", ("ls", "x")),
        ("$(printf 'ls') x", ("ls", "x")),
        ("$(echo 6c73 | xxd -r -p) x", ("ls", "x")),
        ("$(echo sl | rev) x", ("ls", "x")),
        ("$(echo bHM= | base64 -d | cat) x", ("ls", "x")),
    ],
)
def test_what_simple_programs_print_is_known(text: str, argv: tuple[str, ...]) -> None:
    assert parse_shell(text).commands[-1].argv == argv


@pytest.mark.parametrize(
    "text", ["$(echo '!!' | base64 -d) x", "$(printf '%d' 3) x", "$(echo zz | xxd -r -p) x"]
)
def test_what_they_print_is_dynamic_where_it_is_not_simple(text: str) -> None:
    assert parse_shell(text).is_dynamic


def test_a_file_that_a_script_writes_and_runs_is_read() -> None:
    text = "cd d && cat > x.sh <<'EOF'\nls -l\nEOF\nbash x.sh && ./x.sh"
    assert [command.wrappers for command in parse_shell(text).commands if command.name == "ls"] == [
        ("bash",),
        ("x.sh",),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'ls x' > r.sh; sh < r.sh",
        "echo 'ls x' > r.sh; bash -s < ./r.sh",
        "cat > r.sh <<E\nls x\nE\ncat r.sh | sh",
        "echo 'ls \\' > a; echo x > b; cat a b | sh",
        "echo bHMgeA== > r; base64 -d r | sh",
        "echo bHMgeA== > r; base64 -d < r | sh",
        "echo 'ls x' > r; eval \"$(cat r)\"",
        "echo 'ls x' > r; tee q < r; sh q",
    ],
)
def test_a_file_that_a_script_writes_and_hands_to_a_shell_is_read(text: str) -> None:
    assert parse_shell(text).commands[-1].argv == ("ls", "x")


def test_a_file_that_nobody_wrote_is_not_known() -> None:
    commands = parse_shell("echo 'ls x' > r; cat r other | sh; sh < other").commands
    assert [command.name for command in commands] == ["echo", "cat", "sh", "sh"]
