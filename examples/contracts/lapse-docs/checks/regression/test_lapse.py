import io

import pytest

from lapse import DurationError, backoff, parse, render, split
from lapse.cli import main
from lapse.config import Settings, load


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h 30m", 5400.0), ("1.5h", 5400.0), ("250ms", 0.25), ("1w2d", 777600.0)], ids=["parts", "fraction", "small", "large"]
)
def test_parse_reads_durations(text, seconds):
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "30m 1h", "1h 1h", "3 fortnights", "1y", "90"], ids=["empty", "order", "twice", "unknown", "year", "bare"])
def test_parse_refuses(text):
    with pytest.raises(DurationError):
        parse(text)


def test_a_bare_number_has_the_default_unit():
    assert parse("90", default_unit="m") == 5400.0


def test_render_cuts_off():
    assert [render(3599.6), render(93784, parts=4), render(0)] == ["59m 59s", "1d 2h 3m 4s", "0s"]


def test_backoff_stays_below_its_limit():
    assert backoff("1s", limit="5s", count=4) == [1.0, 2.0, 4.0, 5.0]


def test_split_loses_nothing():
    assert split("1s", 3) == [0.334, 0.333, 0.333]


def test_settings_have_defaults():
    assert load("") == Settings(parts=2, default_unit="s", limit="5m")


def test_unknown_settings_are_errors():
    with pytest.raises(ValueError, match="unknown setting: precision"):
        load("[lapse]\nprecision = 2\n")


def test_the_command_prints_seconds():
    stdout = io.StringIO()
    assert main(["seconds", "90", "--unit", "m"], stdout) == 0
    assert stdout.getvalue() == "5400\n"


def test_what_is_no_duration_ends_with_status_3(capsys):
    assert main(["show", "soon"]) == 3
    assert "cannot read" in capsys.readouterr().err
