"""Hidden acceptance tests: several books in one process, and nothing kept in modules."""

import ast
import copy
import importlib
import pkgutil
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SHOP = """\
account assets:cash
account income:sales
2026-03-01 "Market day"
  assets:cash    125.50
  income:sales  -125.50
"""
CLUB = """\
account assets:bank
account equity:start
2026-01-01 "Start"
  assets:bank   10
  equity:start -10
"""


def read_book(text):
    import tillbook

    return tillbook.read_book(text)


def book_error():
    import tillbook

    return tillbook.BookError


def test_reading_gives_a_book():
    book = read_book(SHOP)
    assert book.balances() == [("assets:cash", Decimal("125.50")), ("income:sales", Decimal("-125.50"))]


def test_a_book_gives_statements():
    rows = read_book(SHOP).statement("assets:cash")
    assert rows == [("2026-03-01", "Market day", Decimal("125.50"), Decimal("125.50"))]


def test_two_books_are_apart():
    shop, club = read_book(SHOP), read_book(CLUB)
    assert [name for name, _ in shop.balances()] == ["assets:cash", "income:sales"]
    assert [name for name, _ in club.balances()] == ["assets:bank", "equity:start"]


def test_a_book_goes_on_after_another_was_read():
    shop = read_book(SHOP)
    read_book(CLUB)
    shop.post("2026-03-02", "More", [("assets:cash", Decimal(1)), ("income:sales", Decimal(-1))])
    assert shop.balances()[0] == ("assets:cash", Decimal("126.50"))
    assert len(shop.entries()) == 2


def test_a_book_can_be_made_without_text():
    import tillbook

    book = tillbook.Book()
    book.open_account("assets:cash")
    book.open_account("equity:start")
    book.post("2026-01-01", "Start", [("assets:cash", Decimal(5)), ("equity:start", Decimal(-5))])
    assert book.balances() == [("assets:cash", Decimal(5)), ("equity:start", Decimal(-5))]


def test_dates_of_another_book_do_not_matter():
    read_book(SHOP)
    assert len(read_book(CLUB).entries()) == 1


def test_a_failed_reading_leaves_other_books_alone():
    shop = read_book(SHOP)
    with pytest.raises(book_error(), match="line 2"):
        read_book("account assets:x\nnonsense\n")
    assert [name for name, _ in shop.balances()] == ["assets:cash", "income:sales"]


def test_a_refused_entry_changes_nothing():
    shop = read_book(SHOP)
    with pytest.raises(book_error(), match="sum to zero"):
        shop.post("2026-04-01", "Bad", [("assets:cash", Decimal(1)), ("income:sales", Decimal(1))])
    assert len(shop.entries()) == 1
    shop.post("2026-03-01", "Good", [("assets:cash", Decimal(1)), ("income:sales", Decimal(-1))])
    assert len(shop.entries()) == 2


def test_accounts_are_closed_in_their_own_book():
    shop, other = read_book("account assets:cash\n"), read_book(SHOP)
    shop.close_account("assets:cash")
    other.post("2026-03-02", "More", [("assets:cash", Decimal(1)), ("income:sales", Decimal(-1))])
    with pytest.raises(book_error(), match="account is closed"):
        shop.post("2026-03-02", "More", [("assets:cash", Decimal(1)), ("assets:cash", Decimal(-1))])


def test_threads_read_their_own_books():
    found, start = {}, threading.Barrier(8)

    def work(number):
        text = f"account assets:a{number}\naccount equity:e\n" + "".join(
            f'2026-01-01 "x"\n  assets:a{number} 1\n  equity:e -1\n' for _ in range(50)
        )
        start.wait()
        try:
            found[number] = read_book(text).balances()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [(f"assets:a{number}", Decimal(50)), ("equity:e", Decimal(-50))] for number in range(8)}


def test_the_functions_that_knew_one_book_are_gone():
    import tillbook

    assert sorted(tillbook.__all__) == ["Book", "BookError", "read_book"]
    assert not hasattr(tillbook, "balances")
    assert not hasattr(tillbook, "statement")


def test_no_module_keeps_state():
    import tillbook

    for module in pkgutil.iter_modules(tillbook.__path__):
        if module.name != "__main__":
            importlib.import_module(f"tillbook.{module.name}")
    read_book(CLUB)
    before = {name: state_of(module) for name, module in sys.modules.items() if name.split(".")[0] == "tillbook"}
    read_book(SHOP)
    after = {name: state_of(sys.modules[name]) for name in before}
    assert after == before


def state_of(module):
    plain = (str, int, list, dict, set, tuple, type(None), Decimal)
    return {
        name: copy.deepcopy(value)
        for name, value in vars(module).items()
        if isinstance(value, plain) and not (name.startswith("__") and name != "__all__")
    }


def test_no_function_writes_to_its_module():
    for path in (ROOT / "tillbook").rglob("*.py"):
        assert not [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Global)]


def test_modules_do_not_import_each_other_in_a_circle():
    imports = {}
    for path in (ROOT / "tillbook").rglob("*.py"):
        text = path.read_text("utf-8")
        words = set(text.replace(",", " ").replace(".", " ").split())
        lines = [line for line in text.splitlines() if line.lstrip().startswith(("import ", "from ")) and "tillbook" in line]
        names = {other.stem for other in (ROOT / "tillbook").rglob("*.py") if other.stem not in ("__init__", path.stem)}
        imports[path.stem] = {
            name for name in names & words if any(name in line.replace(",", " ").replace(".", " ").split() for line in lines)
        }
    del imports["__init__"]
    while leaves := [name for name, needed in imports.items() if not needed]:
        for leaf in leaves:
            del imports[leaf]
        for needed in imports.values():
            needed.difference_update(leaves)
    assert imports == {}
