from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from repotrial.contract import build_lock, build_schemas, load_contract
from support.contracts import FIXTURE_NAMES, FIXTURES, MINIMAL, pin_for, problems_of

ROOT = Path(__file__).parents[3]
SCHEMAS = build_schemas()
CONTRACTS = sorted(
    path.parent
    for folder in (FIXTURES, ROOT / "examples" / "contracts")
    for path in folder.glob("*/contract.toml")
)


def errors_of(name: str, document: Any) -> list[str]:
    validator = Draft202012Validator(SCHEMAS[name])
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_schema_on_disk_is_the_one_of_the_models(name: str) -> None:
    assert json.loads((ROOT / "schemas" / name).read_text()) == SCHEMAS[name], "run tools/generate.py"


def test_there_is_no_schema_without_a_model() -> None:
    ours = {name for name in SCHEMAS if name.split(".")[0] in {"contract", "lock", "inventory"}}
    assert ours == {"contract.schema.json", "lock.schema.json", "inventory.schema.json"}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_itself_sound(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:repotrial:schema:")


@pytest.mark.parametrize("directory", CONTRACTS, ids=lambda path: path.name)
def test_a_contract_that_loads_fits_the_schema(directory: Path) -> None:
    assert errors_of("contract.schema.json", tomllib.loads((directory / "contract.toml").read_text())) == []
    if (directory / "vendor.txt").is_file() and not (directory / "vendor").is_dir():
        pytest.skip("the archive of a real package was not fetched (tools/fetch_examples.sh)")
    for check in load_contract(directory).contract.checks:
        if check.inventory is not None:
            document = json.loads((directory / check.inventory).read_text())
            assert errors_of("inventory.schema.json", document) == []


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_a_lock_that_is_written_fits_the_schema(name: str) -> None:
    loaded = load_contract(FIXTURES / name)
    document = json.loads(build_lock(loaded, pin_for(loaded.contract)).to_bytes())
    assert errors_of("lock.schema.json", document) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('id = "minimal"', 'id = "Not An Id"'),
        ('id = "minimal"', 'id = "minimal\\n"'),
        ('kind = "bug-fix"', 'kind = "bug"'),
        ('kind = "bug-fix"', 'kind = "bug-fix"\nstatement = "../x"'),
        ('kind = "bug-fix"', 'kind = "bug-fix"\nsurprise = 1'),
        ('image = "host"', 'image = "hots"'),
        ('kind = "git"', 'kind = "svn"'),
        ('run = "make check"', "run = 5"),
        ('run = "make check"', 'run = "x"\ntimeout_seconds = 0'),
        ('run = "make check"', 'run = "x"\nmandatory = "yes"'),
        ('run = "make check"', 'run = "x"\n[limits]\ncost_usd = "much"'),
        ('gate = "acceptance"\n', ""),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(tmp_path: Path, old: str, new: str) -> None:
    text = MINIMAL.replace(old, new)
    assert text != MINIMAL
    assert problems_of(tmp_path, text)
    assert errors_of("contract.schema.json", tomllib.loads(text))


@pytest.mark.parametrize("amount", ["5", "5.00", '"5.00"', "0"])
def test_an_amount_is_a_number_or_a_text(tmp_path: Path, amount: str) -> None:
    text = f"{MINIMAL}[limits]\ncost_usd = {amount}\n"
    assert problems_of(tmp_path, text) == []
    assert errors_of("contract.schema.json", tomllib.loads(text)) == []


def iter_nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from iter_nodes(item)


def test_an_editor_can_show_what_fields_mean() -> None:
    properties = SCHEMAS["contract.schema.json"]["$defs"]["Check"]["properties"]
    assert properties["timeout_seconds"]["description"].startswith("No default")
    assert properties["mandatory"]["description"] == "Whether success needs it."
    assert "null" not in json.dumps(SCHEMAS["contract.schema.json"])


def test_every_pattern_is_one_that_editors_understand() -> None:
    r"""ECMAScript has no \A, \Z, (?P<…>, (?#…), (?i) or possessive quantifiers."""
    foreign = (r"\A", r"\Z", r"\z", "(?P", "(?#", "(?i", "++", "*+", "?+", "(?<!", "(?<=")
    patterns = [node["pattern"] for schema in SCHEMAS.values() for node in iter_nodes(schema)
                if isinstance(node.get("pattern"), str)]  # fmt: skip
    assert patterns
    assert not [pattern for pattern in patterns if any(word in pattern for word in foreign)]
