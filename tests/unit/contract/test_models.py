from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect as mi

import repotrial.contract
from repotrial.contract import (
    Check,
    Contract,
    ContractLock,
    Inventory,
    ResultFile,
    Runner,
    TaskKind,
    load_contract,
)
from repotrial.contract._problems import expected_words
from support.contract_values import strip
from support.contracts import FIXTURE_NAMES, FIXTURES, document_of

MODELS: tuple[type[msgspec.Struct], ...] = (Contract, ContractLock, Inventory)


def iter_fields(info: mi.Type, place: str) -> Iterator[tuple[str, mi.Type]]:
    yield place, info
    match strip(info):
        case mi.StructType(cls=cls, fields=fields):
            for field in fields:
                yield from iter_fields(field.type, f"{cls.__name__}.{field.name}")
        case mi.UnionType(types=types):
            for option in types:
                yield from iter_fields(option, place)
        case mi.VarTupleType(item_type=item):
            yield from iter_fields(item, place)
        case mi.DictType(key_type=key, value_type=item):
            yield from iter_fields(key, place)
            yield from iter_fields(item, place)
        case _:
            return


FIELDS = [field for model in MODELS for field in iter_fields(mi.type_info(model), model.__name__)]


def test_every_table_is_immutable_and_strict_about_its_keys() -> None:
    structs = [info for _, info in FIELDS if isinstance(info, mi.StructType)]
    assert len({struct.cls for struct in structs}) > 30
    assert all(struct.forbid_unknown_fields and struct.cls.__struct_config__.frozen for struct in structs)


def test_the_kinds_of_work_are_those_of_the_protocol() -> None:
    assert set(get_args(TaskKind)) == {
        "bug-fix",
        "refactor",
        "dependency-upgrade",
        "api-migration",
        "documentation",
        "operational-hardening",
        "feature",
    }


def test_no_field_is_a_float() -> None:
    assert [place for place, info in FIELDS if isinstance(strip(info), mi.FloatType | mi.AnyType)] == []


def test_every_pattern_has_its_words() -> None:
    unspoken = [
        place
        for place, info in FIELDS
        if isinstance(inner := strip(info), mi.StrType) and inner.pattern and expected_words(info) == "text"
    ]
    assert unspoken == []


def test_every_path_beside_the_contract_says_what_must_be_there() -> None:
    paths = {
        place: info.extra
        for place, info in FIELDS
        if isinstance(info, mi.Metadata) and (info.extra or {}).get("tree") == "contract"
    }
    assert {"Contract.statement", "Overlay.source", "Check.inventory", "PythonEnvironment.lock"} <= set(paths)
    for extra in paths.values():
        assert extra is not None
        assert extra["entry"] in {"file", "directory", "any"}
        assert extra["max_bytes"] > 0
    unpinned = {place for place, extra in paths.items() if extra is not None and not extra["is_pinned"]}
    assert unpinned == {
        "Contract.statement",
        "Contract.reference",
        "ArchiveRepository.source",
        "DirectoryRepository.source",
        "ImageLayout.path",
    }


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_a_contract_survives_being_written_and_read(name: str) -> None:
    contract = load_contract(FIXTURES / name).contract
    assert msgspec.convert(document_of(contract), Contract) == contract


def test_the_fixtures_use_what_real_repositories_need() -> None:
    used: set[str] = set()
    for name in FIXTURE_NAMES:
        document: Any = document_of(load_contract(FIXTURES / name).contract)
        used |= {key for key, value in document["environment"].items() if value}
        used |= {key for check in document["checks"] for key, value in check.items() if value}
        used |= {key for key, value in document["repository"].items() if value}
        used |= {result["format"] for check in document["checks"] for result in check["results"]}
        used |= {
            result["format"]
            for check in document["checks"]
            for runner in check["runners"]
            for result in runner["results"]
        }
    assert used >= {
        *("services", "secrets", "python", "node", "artifacts", "mounts", "system_calls", "absent_files"),
        *("describe", "mtime_order", "submodules", "outputs", "runners", "negative", "expected_skips"),
        *("junit", "tap", "node-test", "libtest", "automake-trs"),
    }


def test_one_command_or_several_are_read_alike() -> None:
    results = (ResultFile(format="junit", path="unit.xml"),)
    one = Check(id="a", gate="acceptance", run="x", cwd="sub", results=results)
    several = Check(id="a", gate="acceptance", runners=(Runner(run="x", cwd="sub", results=results),))
    assert one.all_runners == several.all_runners


def test_the_public_names_are_sorted_and_there() -> None:
    names = repotrial.contract.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(repotrial.contract, name) for name in names)


def test_every_problem_of_the_loader_is_documented() -> None:
    sources = [
        path
        for path in Path(repotrial.contract.__file__).parent.glob("_*.py")
        if path.name not in {"_codes.py", "_runspec.py"}
    ]
    written = "\n".join(path.read_text() for path in sources)
    used = set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)+)"', written))
    page = (Path(__file__).parents[3] / "docs/reference/lint.md").read_text("utf-8")
    loading = page.partition("# Problems of loading")[2].partition("\n# ")[0]
    documented = set(re.findall(r"^\| `([a-z0-9-]+)` \|", loading, re.MULTILINE))
    assert documented <= used
    raised = re.findall(
        r'(?:code=|code, field = |code = |(?:report|_syntax|_problem)\(\s*)"([a-z0-9-]+)"', written
    )
    assert set(raised) <= documented
