"""One key of the first check is set; every other byte of the author's file stays."""

from __future__ import annotations

import tomllib

import pytest

from repotrial.mining._prove import set_in_first_check
from support.errors import raises_code

_TEXT = """\
# top
id = "x"

[[checks]]
id = "one"          # the first
run = '''
cd app
python -m pytest'''
results = [
  { format = "exit-code" },
]

[[checks.files]]
run = "no key of the check"

[[checks]]
id = "two"
run = "true"
"""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run", "python -m pytest -k 'a' \\"),
        ("run", 'say "so"'),
        ("results", [{"format": "junit", "path": "junit.xml"}]),
        ("inventory", "checks/tests.json"),
    ],
)
def test_one_key_changes_and_nothing_else(key: str, value: object) -> None:
    edited = set_in_first_check(_TEXT, key, value)
    document = tomllib.loads(edited)
    assert document["checks"][0].pop(key) == value
    wanted = tomllib.loads(_TEXT)
    wanted["checks"][0].pop(key, None)
    assert document == wanted
    assert 'id = "one"          # the first\n' in edited
    assert edited.endswith(_TEXT[_TEXT.index("[[checks.files]]") :])


def test_a_value_that_stands_already_changes_no_byte() -> None:
    assert set_in_first_check(_TEXT, "id", "one") == _TEXT


def test_a_check_that_no_table_holds_is_told_what_to_write() -> None:
    with raises_code("proof-impossible") as caught:
        set_in_first_check('checks = [{ id = "one" }]\n', "inventory", "a.json")
    assert 'inventory = "a.json"' in str(caught.value.hint)
