import io

import pytest

from tillbook.cli import main

BOOK = """\
account assets:cash
account income:sales   # what comes in
account expenses:rent

2026-03-01 "Market day"
  assets:cash    125.50
  income:sales  -125.50
2026-03-02 "Stall"
  expenses:rent   40
  assets:cash    -40
"""


@pytest.fixture
def run(tmp_path):
    def run_command(command, text, *more):
        path = tmp_path / "book.txt"
        path.write_text(text, "utf-8")
        stdout = io.StringIO()
        return main([command, str(path), *more], stdout), stdout.getvalue()

    return run_command


def test_balance_lists_all_accounts(run):
    assert run("balance", BOOK) == (0, "assets:cash\t85.50\nexpenses:rent\t40\nincome:sales\t-125.50\n")


def test_a_statement_has_the_balance_after_each_line(run):
    expected = "2026-03-01\tMarket day\t125.50\t125.50\n2026-03-02\tStall\t-40\t85.50\n"
    assert run("statement", BOOK, "assets:cash") == (0, expected)


def test_check_counts_entries(run):
    assert run("check", BOOK) == (0, "2 entries\n")


def test_an_empty_book_has_nothing(run):
    assert run("balance", "") == (0, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("account toys:lego\n", "line 1: unknown kind of account: toys"),
        ("account assets:a\naccount assets:a\n", "line 2: account is open already: assets:a"),
        ('account assets:a\n2026-01-01 "x"\n  assets:a 1\n  assets:b -1\n', "line 2: unknown account: assets:b"),
        ('account assets:a\n2026-01-01 "x"\n  assets:a 1\n  assets:a -2\n', "line 2: entry does not sum to zero: -1"),
        ('account assets:a\n2026-01-01 "x"\n  assets:a 0\n', "line 2: an entry has at least two lines"),
        ("nonsense\n", "line 1: cannot read this"),
        ('account assets:a\n2026-01-01 "x"\n  assets:a one\n', "line 3: cannot read the line of an entry"),
        (BOOK + "close assets:cash\n", "line 11: account is not empty: assets:cash"),
        (BOOK + '2026-01-01 "x"\n  assets:cash 1\n  assets:cash -1\n', "line 11: 2026-01-01 is before 2026-03-02"),
    ],
    ids=["kind", "twice", "unknown", "sum", "lines", "nonsense", "amount", "close", "date"],
)
def test_what_is_wrong_is_told_with_its_line(run, capsys, text, message):
    assert run("check", text) == (1, "")
    assert capsys.readouterr().err == f"tillbook: {message}\n"


def test_a_closed_account_takes_no_entries(run, capsys):
    text = 'account assets:a\naccount assets:b\nclose assets:a\n2026-01-01 "x"\n  assets:a 1\n  assets:b -1\n'
    assert run("check", text) == (1, "")
    assert "line 4: account is closed: assets:a" in capsys.readouterr().err


def test_an_unknown_account_has_no_statement(run, capsys):
    assert run("statement", BOOK, "assets:gold") == (1, "")
    assert "unknown account: assets:gold" in capsys.readouterr().err
