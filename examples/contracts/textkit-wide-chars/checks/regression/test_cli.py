import io

from textkit.cli import main


def run(arguments, text):
    stdout = io.StringIO()
    return main(arguments, io.StringIO(text), stdout), stdout.getvalue()


def test_fill_wraps_standard_input():
    assert run(["fill", "--width", "9"], "one two three\n") == (0, "one two\nthree\n")


def test_fill_with_a_bullet_indents_the_other_lines():
    assert run(["fill", "--width", "9", "--bullet", "- "], "one two three") == (0, "- one two\n  three\n")


def test_table_reads_tab_separated_values():
    assert run(["table", "--align", "<>"], "a\t1\nbb\t100\n") == (0, "a     1\nbb  100\n")


def test_an_impossible_width_is_an_error(capsys):
    code, output = run(["fill", "--width", "2", "--bullet", "==>"], "text")
    assert (code, output) == (2, "")
    assert "leaves no room" in capsys.readouterr().err
