"""C11: any change to R, E, Setup, Oracle or Policy is a new version; nothing else is."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import inspect as mi

from repotrial._core.errors import ContractError
from repotrial.contract import (
    Contract,
    ContractLock,
    LoadedContract,
    RepositoryPin,
    SubmodulePin,
    build_lock,
    check_lock,
    load_contract,
)
from repotrial.contract._version import canonical_parts, compute_version_id
from support.contract_values import POOL, Place, iter_sites, replace_at, strip, values_of
from support.contracts import (
    COMMIT,
    CONTRACT_TYPE,
    DIGEST,
    FIXTURE_NAMES,
    FIXTURES,
    MINIMAL,
    PIN,
    copy_fixture,
    document_of,
    pin_for,
    write_contract,
)
from support.errors import raises_code
from support.exhaustive import examples
from support.toml_writer import TomlWriter, without_null

PROMISED = ("repository", "environment", "setup", "checks", "policy", "limits")
PART_OF = {"checks": "oracle", "limits": "policy"}
DESCRIBED = ("id", "title", "kind", "labels", "ecosystem", "statement", "reference", "clarify", "scoring")
ORIGIN = {("repository", name) for name in ("source", "protocols", "submodules", "digest")}


@cache
def fixture(name: str) -> LoadedContract:
    return load_contract(FIXTURES / name)


def version_of(loaded: LoadedContract) -> str:
    return build_lock(loaded, pin_for(loaded.contract)).version_id


@cache
def list_sites(name: str, top: tuple[str, ...]) -> list[tuple[Place, mi.Type]]:
    document = document_of(fixture(name).contract)
    return [site for site in iter_sites(document, CONTRACT_TYPE) if site[0][0] in top]


@st.composite
def changes(draw: st.DrawFn, top: tuple[str, ...]) -> tuple[str, Place, Contract]:
    """A fixture with one field, somewhere, set to something else that is sound."""
    name = draw(st.sampled_from(FIXTURE_NAMES))
    section = draw(st.sampled_from(top))
    place, info = draw(st.sampled_from(list_sites(name, (section,))))
    document = document_of(fixture(name).contract)
    changed = msgspec.convert(replace_at(document, place, draw(values_of(info))), Contract)
    assume(changed != fixture(name).contract)
    return name, place, changed


@settings(max_examples=examples(150, thorough=4000))
@given(changes(PROMISED))
def test_any_change_to_what_is_promised_is_a_new_version(change: tuple[str, Place, Contract]) -> None:
    name, place, changed = change
    assume(place[:2] not in ORIGIN)
    original = fixture(name)
    pin = pin_for(original.contract)
    before = canonical_parts(original.contract, pin=pin, files=original.files)
    after = canonical_parts(changed, pin=pin, files=original.files)
    if place == ("repository",):  # another kind of repository, or the same one from somewhere else
        assume(before["repository"] != after["repository"])
    different = {part for part in before if before[part] != after[part]}
    assert different == {PART_OF.get(str(place[0]), place[0])}
    assert compute_version_id(changed, pin=pin, files=original.files) != version_of(original)


@settings(max_examples=examples(50, thorough=1000))
@given(changes(DESCRIBED))
def test_what_describes_and_grades_is_not_in_the_version(change: tuple[str, Place, Contract]) -> None:
    name, _, changed = change
    original = fixture(name)
    found = compute_version_id(changed, pin=pin_for(original.contract), files=original.files)
    assert found == version_of(original)


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_every_single_leaf_of_a_real_contract_counts(name: str) -> None:
    """Exhaustive where the property above samples: each scalar that is set, in turn, set to another value."""
    original, pin = fixture(name), pin_for(fixture(name).contract)
    document = document_of(original.contract)
    seen = {version_of(original)}
    count = 0
    for place, info in list_sites(name, PROMISED):
        value: Any = document
        for step in place:
            value = value[step]
        for other in [] if place[:2] in ORIGIN else another_value(value, info):
            changed = msgspec.convert(replace_at(document, place, other), Contract)
            seen.add(compute_version_id(changed, pin=pin, files=original.files))
            count += 1
    assert count > 50
    assert len(seen) == count + 1  # all differ from the original and from one another


def another_value(value: Any, info: mi.Type) -> list[Any]:
    """Other sound values for a scalar; nothing for tables, arrays and what is not set."""
    options = [strip(option) for option in info.types] if isinstance(info, mi.UnionType) else [strip(info)]
    for option in options:
        match option, value:
            case mi.BoolType(), bool():
                return [not value]
            case mi.IntType(), int():
                return [value + 1]
            case mi.StrType(pattern=None), str():
                return [value + "x"]
            case mi.StrType(pattern=str() as pattern), str():
                return [word for word in POOL if re.search(pattern, word) and word != value][:1]
            case mi.LiteralType(values=choices), str():
                return [choice for choice in choices if choice != value]
            case _:
                continue
    return []


def edit(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        file = directory / path
        mode = file.stat().st_mode
        file.write_bytes(change(file.read_bytes()))
        file.chmod(mode)

    return apply


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_every_byte_and_bit_of_every_pinned_file_counts(name: str, tmp_path: Path) -> None:
    directory = copy_fixture(name, tmp_path)
    seen = {version_of(load_contract(directory))}
    for pin in fixture(name).files:
        path = directory / pin.path
        data, mode = path.read_bytes(), path.stat().st_mode
        path.chmod(mode ^ 0o100)
        seen.add(version_of(load_contract(directory)))
        path.chmod(mode)
        path.write_bytes(data + b"\n")
        seen.add(version_of(load_contract(directory)))
        path.write_bytes(data)
    assert len(seen) == 1 + 2 * len(fixture(name).files)
    assert version_of(load_contract(directory)) == version_of(fixture(name))


def test_an_oracle_file_that_moves_or_appears_is_a_change(tmp_path: Path) -> None:
    directory = copy_fixture("autotools-c-ring", tmp_path)
    before = version_of(load_contract(directory))
    (directory / "checks/tests/order.c").rename(directory / "checks/tests/first.c")
    moved = version_of(load_contract(directory))
    (directory / "checks/tests/order.c").write_text("int main(void) { return 0; }\n")
    assert len({before, moved, version_of(load_contract(directory))}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"tree_digest": "sha256:" + "1" * 64},
        {"commit": "1" * 40},
        {"archive_digest": DIGEST},
        {"submodules": (SubmodulePin(path="vendor", commit=COMMIT),)},
    ],
)
def test_every_part_of_the_pin_counts(change: dict[str, Any], tmp_path: Path) -> None:
    loaded = load_contract(write_contract(tmp_path))
    other = msgspec.structs.replace(PIN, **change)
    versions = {compute_version_id(loaded.contract, pin=pin, files=loaded.files) for pin in (PIN, other)}
    assert len(versions) == 2


def test_a_mirror_gives_the_same_version(tmp_path: Path) -> None:
    def pin(source: str) -> RepositoryPin:
        return msgspec.structs.replace(
            PIN, submodules=(SubmodulePin(path="vendor", commit=COMMIT, source=source),)
        )

    one = load_contract(write_contract(tmp_path / "one"))
    mirrored = MINIMAL.replace('"repo.bundle"', '"https://example.org/repo.git"\nprotocols = ["https"]')
    two = load_contract(write_contract(tmp_path / "two", mirrored))
    assert one.contract != two.contract
    versions = [
        compute_version_id(loaded.contract, pin=pin(source), files=loaded.files)
        for loaded, source in ((one, "https://a.example.org/v"), (two, "https://b.example.org/v"))
    ]
    assert versions[0] == versions[1]


@settings(max_examples=examples(25, thorough=500))
@given(name=st.sampled_from(FIXTURE_NAMES), seed=st.integers(0, 2**32))
def test_another_spelling_of_the_document_is_the_same_version(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int
) -> None:
    original = fixture(name)
    text = TomlWriter(Random(seed)).write(without_null(document_of(original.contract)))
    directory = tmp_path_factory.mktemp("spelling") / "elsewhere"
    shutil.copytree(original.directory, directory)
    (directory / "contract.toml").write_text(text)
    loaded = load_contract(directory)
    assert loaded.contract == original.contract
    assert version_of(loaded) == version_of(original)
    shutil.rmtree(directory)


def test_statement_and_reference_are_locked_beside_the_version(tmp_path: Path) -> None:
    directory = copy_fixture("rust-workspace-intern", tmp_path)
    before = build_lock(load_contract(directory), pin_for(fixture("rust-workspace-intern").contract))
    edit("statement.md", lambda data: data + b"\nPlease.\n")(directory)
    edit("reference.patch", lambda data: data + b"\n")(directory)
    after = build_lock(load_contract(directory), before.repository)
    assert before.version_id == after.version_id
    assert before.statement_digest != after.statement_digest
    assert before.reference_digest != after.reference_digest


@settings(max_examples=50)
@given(changes(("title", "clarify", "scoring")))
def test_what_the_agent_is_told_and_the_score_have_digests_of_their_own(
    change: tuple[str, Place, Contract],
) -> None:
    name, place, changed = change
    original = fixture(name)
    before, after = (
        build_lock(dataclasses.replace(original, contract=contract), pin_for(original.contract))
        for contract in (original.contract, changed)
    )
    assert before.version_id == after.version_id
    assert (before.scoring_digest != after.scoring_digest) == (place[0] == "scoring")
    assert (before.statement_digest != after.statement_digest) == (place[0] != "scoring")


def test_the_version_of_the_format_is_not_in_the_id(tmp_path: Path) -> None:
    """A contract moves to the second version without a new certificate."""
    said = MINIMAL + '[scoring]\nbuild_gate = "none: nothing is built"\n'
    first = write_contract(tmp_path / "first", said, files={"repo.bundle": "x"})
    second = write_contract(
        tmp_path / "second", said.replace("contract@1", "contract@2"), files={"repo.bundle": "x"}
    )
    assert build_lock(load_contract(first), PIN) == build_lock(load_contract(second), PIN)


def test_a_default_never_changes() -> None:
    """A field with its default value is not in the id, so a changed default would change what ids mean.

    A new optional field is a new line here; a line that is there stays as it is until the next major.
    """
    kept = json.loads((FIXTURES.parent / "contract-defaults.json").read_text())
    assert list_defaults() == kept


def list_defaults() -> dict[str, Any]:
    tables: dict[str, Any] = {}
    pending: list[mi.Type] = [CONTRACT_TYPE]
    while pending:
        match strip(pending.pop()):
            case mi.StructType(cls=cls, fields=fields) if cls.__name__ not in tables:
                optional = [field for field in fields if not field.required]
                tables[cls.__name__] = {
                    field.encode_name: msgspec.to_builtins(
                        field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
                    )
                    for field in sorted(optional, key=lambda field: field.encode_name)
                }
                pending.extend(field.type for field in fields)
            case mi.UnionType(types=types):
                pending.extend(types)
            case mi.VarTupleType(item_type=item) | mi.DictType(value_type=item):
                pending.append(item)
            case _:
                continue
    listed: dict[str, Any] = json.loads(json.dumps({name: table for name, table in tables.items() if table}))
    return listed


@pytest.mark.parametrize(
    ("line", "table"),
    [
        ('writable = ["**"]', "[policy]"),
        ("wall_seconds = 1800", "[limits]"),
        ('isolation = "L3"', "[environment]"),
        ("mandatory = true", "[[checks]]"),
    ],
)
def test_a_default_that_is_written_out_is_the_same_version(tmp_path: Path, line: str, table: str) -> None:
    text = MINIMAL.replace(table, f"{table}\n{line}") if table in MINIMAL else f"{MINIMAL}\n{table}\n{line}\n"
    one = load_contract(write_contract(tmp_path / "one"))
    two = load_contract(write_contract(tmp_path / "two", text))
    assert version_of(one) == version_of(two)


def test_the_version_of_a_known_contract_never_moves(tmp_path: Path) -> None:
    """Locks are committed: a change of this value breaks every lock that there is."""
    lock = build_lock(load_contract(write_contract(tmp_path)), PIN)
    assert lock.version_id == "sha256:14da17fb3704af25ac616c44af45e17a81ff7107739a295d1be754fa0e2b71c4"


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_a_lock_is_read_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    lock = build_lock(fixture(name), pin_for(fixture(name).contract))
    data = lock.to_bytes()
    assert data.endswith(b"}\n")
    copied = shutil.copytree(FIXTURES / name, tmp_path / name)
    (copied / "contract.lock.json").write_bytes(data)
    assert load_contract(copied).lock == lock


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"schema": "repotrial/lock@2"}', b"{" * 50_000]
)
def test_what_is_no_lock_is_refused(data: bytes, tmp_path: Path) -> None:
    contract = write_contract(tmp_path)
    (contract / "contract.lock.json").write_bytes(data)
    with raises_code("contract-invalid") as caught:
        load_contract(contract)
    assert "contract.lock.json" in str(caught.value)


REFERENCE = 'image = { kind = "reference", reference = "registry.example.org/python:3.12" }'


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (MINIMAL.replace('image = "host"', REFERENCE), "environment.image.reference"),
        (
            MINIMAL + '[[environment.services]]\nid = "db"\nrun = "x"\n'
            'readiness = { kind = "port", port = 1 }\n' + REFERENCE,
            "environment.services[0].image.reference",
        ),
    ],
)
def test_an_image_without_a_digest_is_not_locked(tmp_path: Path, text: str, field: str) -> None:
    loaded = load_contract(write_contract(tmp_path, text))
    with raises_code("contract-unpinned-image", match=r"python:3\.12") as caught:
        build_lock(loaded, PIN)
    assert field in str(caught.value)
    assert isinstance(caught.value, ContractError)


def test_a_pin_of_another_commit_is_not_locked(tmp_path: Path) -> None:
    loaded = load_contract(write_contract(tmp_path))
    with raises_code("contract-pin-mismatch", match=r"repository\.commit: expected 0123"):
        build_lock(loaded, msgspec.structs.replace(PIN, commit="f" * 40))


def test_a_pin_of_another_archive_is_not_locked(tmp_path: Path) -> None:
    start, end = MINIMAL.index("[repository]"), MINIMAL.index("[environment]")
    repository = f'[repository]\nkind = "archive"\nsource = "a.tar"\ndigest = "{DIGEST}"\n\n'
    text = MINIMAL[:start] + repository + MINIMAL[end:]
    loaded = load_contract(write_contract(tmp_path, text, files={"a.tar": ""}))
    with raises_code("contract-pin-mismatch", match=r"repository\.digest"):
        build_lock(loaded, RepositoryPin(tree_digest=DIGEST, archive_digest="sha256:" + "0" * 64))


ALLOW = 'network = { kind = "allow-list", hosts = ["example.org"] }\n'
RECORDED = 'network = { kind = "allow-list", hosts = ["example.org"], recording = "r.json" }\n'


@pytest.mark.parametrize(
    ("lines", "label"),
    [
        ("", "replayable"),
        ("[policy]\n" + ALLOW, "conditional"),
        ('[[setup]]\nrun = "x"\n' + ALLOW, "conditional"),
        ("[policy]\n" + RECORDED, "replayable"),
        ('[[setup]]\nrun = "x"\n' + RECORDED.replace("r.json", "not-yet.json"), "conditional"),
        ('[policy]\nnetwork = { kind = "replay", recording = "r.json" }\n', "replayable"),
    ],
)
def test_what_needs_the_network_and_is_not_recorded_is_conditional(
    tmp_path: Path, lines: str, label: str
) -> None:
    loaded = load_contract(write_contract(tmp_path, MINIMAL + lines, files={"r.json": "{}"}))
    assert build_lock(loaded, PIN).replay == label


def lock_in(directory: Path) -> ContractLock:
    loaded = load_contract(directory)
    lock = build_lock(loaded, pin_for(loaded.contract))
    (directory / "contract.lock.json").write_bytes(lock.to_bytes())
    return lock


def test_a_fresh_lock_holds(tmp_path: Path) -> None:
    for name in FIXTURE_NAMES:
        directory = copy_fixture(name, tmp_path)
        lock_in(directory)
        assert check_lock(load_contract(directory)) == []


def test_a_missing_lock_is_a_warning(tmp_path: Path) -> None:
    (problem,) = check_lock(load_contract(write_contract(tmp_path)))
    assert (problem.code, problem.severity) == ("lock-missing", "warning")


STALE: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "an edited check": (
        edit("checks/tests/wrap.c", lambda data: data + b"\n"),
        {"files[checks/tests/wrap.c]", "version_id"},
        "(changed: oracle)",
    ),
    "an executable bit": (
        lambda directory: (directory / "setup/configure.sh").chmod(0o644),
        {"files[setup/configure.sh]", "version_id"},
        "(changed: setup)",
    ),
    "a new check file": (
        lambda directory: (directory / "checks/tests/new.c").touch(),
        {"files[checks/tests/new.c]", "version_id"},
        "(changed: oracle)",
    ),
    "another limit": (
        edit("contract.toml", lambda data: data.replace(b"wall_seconds = 1200", b"wall_seconds = 1201")),
        {"version_id"},
        "(changed: policy)",
    ),
    "another variable": (
        edit("contract.toml", lambda data: data.replace(b'TZ = "UTC"', b'TZ = "CET"')),
        {"version_id"},
        "(changed: environment)",
    ),
    "another describe": (
        edit("contract.toml", lambda data: data.replace(b"v1.4.2-3", b"v1.4.2-4")),
        {"version_id"},
        "(changed: repository)",
    ),
    "another statement": (
        edit("statement.md", lambda data: data + b"\n"),
        {"statement_digest"},
        "as locked, found sha256:",
    ),
    "another title": (
        edit("contract.toml", lambda data: data.replace(b'title = "', b'title = "Urgent: ')),
        {"statement_digest"},
        "as locked, found sha256:",
    ),
    "another hint for the agent": (
        edit(
            "contract.toml", lambda data: data.replace(b"[clarify]", b'[clarify]\nhints = ["Read ring.c."]')
        ),
        {"statement_digest"},
        "as locked, found sha256:",
    ),
    "another weight": (
        edit("contract.toml", lambda data: data + b"[scoring]\nlambda = 0.75\n"),
        {"scoring_digest"},
        "as locked, found sha256:",
    ),
    "another id": (
        edit("contract.toml", lambda data: data.replace(b'id = "autotools-c-ring"', b'id = "other"')),
        {"id"},
        "expected autotools-c-ring as locked, found other",
    ),
}


@pytest.mark.parametrize("case", STALE)
def test_a_stale_lock_says_what_changed(case: str, tmp_path: Path) -> None:
    change, fields, words = STALE[case]
    directory = copy_fixture("autotools-c-ring", tmp_path)
    lock_in(directory)
    change(directory)
    problems = check_lock(load_contract(directory))
    assert {problem.field for problem in problems} == fields
    assert {problem.code for problem in problems} == {"lock-stale"}
    assert words in problems[-1].message


def test_a_lock_of_another_commit_is_stale(tmp_path: Path) -> None:
    directory = write_contract(tmp_path)
    lock_in(directory)
    (directory / "contract.toml").write_text(MINIMAL.replace(COMMIT, "f" * 40))
    problems = check_lock(load_contract(directory))
    assert [problem.field for problem in problems] == ["repository", "version_id"]


@pytest.mark.parametrize("field", ["version_id", "parts"])
def test_a_forged_version_id_is_found(field: str, tmp_path: Path) -> None:
    directory = write_contract(tmp_path)
    lock = lock_in(directory)
    forged = {
        "version_id": DIGEST,
        "parts": msgspec.structs.replace(lock.parts, oracle=DIGEST),
    }[field]
    data = msgspec.structs.replace(lock, **{field: forged}).to_bytes()
    (directory / "contract.lock.json").write_bytes(data)
    assert [problem.field for problem in check_lock(load_contract(directory))] == [field]


def test_a_file_that_the_lock_names_twice_is_found(tmp_path: Path) -> None:
    directory = copy_fixture("autotools-c-ring", tmp_path)
    lock = lock_in(directory)
    twice = (msgspec.structs.replace(lock.files[0], digest=DIGEST), *lock.files)
    (directory / "contract.lock.json").write_bytes(msgspec.structs.replace(lock, files=twice).to_bytes())
    assert [problem.field for problem in check_lock(load_contract(directory))] == ["files"]


def test_a_submodule_pin_that_was_edited_after_locking_is_found(tmp_path: Path) -> None:
    directory = copy_fixture("node-monorepo-retry", tmp_path)
    lock_in(directory)
    edit("contract.toml", lambda data: data.replace(b"0c1d2e3f40", b"1c1d2e3f40"))(directory)
    (problem,) = check_lock(load_contract(directory))
    assert problem.field == "repository"
    assert "vendor/fixtures" in problem.message
