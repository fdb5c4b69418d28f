"""Attacks on the contract loader: a directory from a stranger is data, whatever it contains."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as mi

from repotrial.contract import Contract, Problem, check_directory, lint_contract, load_contract
from repotrial.contract._convert import convert_collecting
from repotrial.contract._draft import build_draft
from repotrial.contract._files import ContractFiles, Refusal
from repotrial.contract._rules import iter_contradictions
from repotrial.contract._text import LineIndex
from support.contract_values import Place, iter_sites, replace_at, strip
from support.contracts import (
    COMMIT,
    CONTRACT_TYPE,
    DIGEST,
    FIXTURE_NAMES,
    FIXTURES,
    MINIMAL,
    codes_of,
    copy_fixture,
    document_of,
    problems_of,
    write_contract,
)
from support.exhaustive import IS_EXHAUSTIVE, examples
from support.toml_writer import without_null

WITH_CHECK_FILES = MINIMAL + 'files = [{ from = "checks", to = "tests" }]\ninventory = "unit.json"\n'
FILES: dict[str, str | bytes] = {"checks/a.c": "int a;\n", "unit.json": '{"fail_to_pass": ["a"]}'}


@cache
def fixture_document(name: str) -> dict[str, Any]:
    return document_of(load_contract(FIXTURES / name).contract)


@cache
def fixture_places(name: str) -> list[Place]:
    return [place for place, _ in iter_sites(fixture_document(name), CONTRACT_TYPE)]


def is_path(info: mi.Type) -> bool:
    options = info.types if isinstance(info, mi.UnionType) else (info,)
    return any(isinstance(option, mi.Metadata) and "tree" in (option.extra or {}) for option in options)


PATH_SITES = [
    (name, place)
    for name in FIXTURE_NAMES
    for place, info in iter_sites(fixture_document(name), CONTRACT_TYPE)
    if is_path(info)
]


def test_there_is_a_path_of_every_kind_to_attack() -> None:
    names = {place[-1] for _, place in PATH_SITES if isinstance(place[-1], str)}
    assert names >= {"statement", "reference", "source", "lock", "inventory", "from", "to", "cwd", "target"}
    assert names >= {"recording", "manifest", "path", "data"}


@pytest.mark.parametrize(
    "path",
    ["../outside", "a/../../outside", "..", "a/..", "a\\..\\..\\b", "x\n", "x\0", "x\r", "\x1b[2J", ""],
)
def test_no_path_field_lets_a_traversal_or_a_control_character_pass(path: str) -> None:
    for name, place in PATH_SITES:
        document = without_null(replace_at(fixture_document(name), place, path))
        findings = convert_collecting(document, Contract).findings
        assert [finding.place for finding in findings] == [place], (place, path)
        assert "\n" not in findings[0].message
        assert "\x1b" not in findings[0].message


def test_no_relative_path_field_lets_an_absolute_path_pass() -> None:
    for name, place in PATH_SITES:
        if place[-1] in {"target", "data"} or "absent_files" in place or "test_tools" in place:
            continue
        document = without_null(replace_at(fixture_document(name), place, "/etc/passwd"))
        assert [finding.place for finding in convert_collecting(document, Contract).findings] == [place]


@pytest.mark.parametrize(
    "name", ["statement.md", "unit.json", "checks/a.c", "contract.toml", "contract.lock.json"]
)
@pytest.mark.parametrize("target", ["/etc/passwd", "real", "dangling"])
def test_a_symbolic_link_is_refused_wherever_it_points(tmp_path: Path, name: str, target: str) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    if (directory / name).exists():
        (directory / name).rename(directory / "real")
    (directory / name).symlink_to(target if target.startswith("/") else directory / target)
    loaded, problems = check_directory(directory)
    assert loaded is None
    assert {problem.code for problem in problems} == {"file-symlink"}
    assert name in str(problems[0])


def test_a_symbolic_link_in_the_middle_of_a_path_is_refused(tmp_path: Path) -> None:
    write_contract(tmp_path / "outside", files={"deep/unit.json": '{"fail_to_pass": ["a"]}'})
    directory = write_contract(tmp_path / "contract", MINIMAL + 'inventory = "sub/deep/unit.json"\n')
    (directory / "sub").symlink_to(tmp_path / "outside")
    _, problems = check_directory(directory)
    assert codes_of(problems) == [("file-symlink", "checks[0].inventory")]
    assert '"sub"' in problems[0].message


def test_a_linked_directory_among_the_oracle_files_is_refused(tmp_path: Path) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    (directory / "checks" / "loop").symlink_to(directory / "checks")
    _, (problem,) = check_directory(directory)
    assert (problem.code, problem.file) == ("file-symlink", "checks/loop")
    assert problem.field == "checks[0].files[0].from"


@pytest.mark.parametrize(
    "name", ["statement.md", "unit.json", "checks/a.c", "contract.toml", "contract.lock.json"]
)
@pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
def test_what_is_no_plain_file_neither_blocks_nor_passes(tmp_path: Path, name: str, kind: str) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    path = directory / name
    path.unlink(missing_ok=True)
    if kind == "directory":
        path.mkdir()
    else:
        os.mknod(path, {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}[kind] | 0o600)
    loaded, problems = check_directory(directory)
    assert loaded is None
    expected = "file-empty" if (kind, name) == ("directory", "checks/a.c") else "file-wrong-kind"
    assert {problem.code for problem in problems} == {expected}


def test_a_device_is_not_opened() -> None:
    files = ContractFiles(Path("/dev"))
    for name in ("null", "zero", "tty"):
        refusal = files.read(name, max_bytes=10)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "file-wrong-kind"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("contract.toml", 2**20),
        ("statement.md", 2**18),
        ("unit.json", 16 * 2**20),
        ("checks/a.c", 64 * 2**20),
        ("contract.lock.json", 16 * 2**20),
    ],
)
def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, name: str, size: int) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    with (directory / name).open("wb") as stream:
        stream.truncate(size + 1)  # sparse: the disk holds nothing
    _, problems = check_directory(directory)
    assert [problem.code for problem in problems] == ["file-too-large"]
    os.truncate(directory / name, 10**12)
    assert [problem.code for problem in check_directory(directory)[1]] == ["file-too-large"]


def test_many_large_oracle_files_are_refused_together(tmp_path: Path) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    for number in range(9):
        with (directory / "checks" / f"{number}.bin").open("wb") as stream:
            stream.truncate(64 * 2**20)
    _, problems = check_directory(directory)
    assert {problem.code for problem in problems} == {"oracle-too-large"}


def test_very_many_oracle_files_are_refused(tmp_path: Path) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    for number in range(20_001):
        (directory / "checks" / f"{number}").mkdir()
    _, (problem,) = check_directory(directory)
    assert (problem.code, problem.line) == ("oracle-too-large", 18)


def test_one_large_directory_laid_very_many_times_is_refused(tmp_path: Path) -> None:
    overlays = ", ".join(f'{{ from = "checks", to = "t{number}" }}' for number in range(5000))
    directory = write_contract(tmp_path, f"{MINIMAL}files = [{overlays}]\n")
    (directory / "checks").mkdir()
    for number in range(100):
        (directory / "checks" / f"{number}").touch()
    _, (problem,) = check_directory(directory)
    assert (problem.code, problem.field) == ("oracle-too-large", "checks[0].files[1000].from")


def test_a_deep_tree_of_oracle_directories_is_walked_without_recursion(tmp_path: Path) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    folders = [str(directory / "checks") + "/d" * depth for depth in range(1, 1200)]
    for folder in folders:
        Path(folder).mkdir()
    try:
        assert check_directory(directory)[1] == []
    finally:
        for folder in reversed(folders):
            Path(folder).rmdir()


@pytest.mark.parametrize("name", ["new\nline", "back\\slash", b"not-utf8-\xff", "\x1b[2J", "rtl\u202e.c"])
def test_a_file_name_that_misleads_is_refused(tmp_path: Path, name: str | bytes) -> None:
    directory = write_contract(tmp_path, WITH_CHECK_FILES, files=FILES)
    Path(os.fsdecode(os.path.join(os.fsencode(directory / "checks"), os.fsencode(name)))).write_text("")  # noqa: PTH118 - bytes
    _, (problem,) = check_directory(directory)
    assert problem.code == "file-name"
    str(problem).encode()


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000 + "]" * 100_000,
        "a = " + "{a=" * 100_000,
        "a = " + "{a=" * 50_000 + "1" + "}" * 50_000,
        "[" + ".".join(["a"] * 100_000) + "]",
        ".".join(["a"] * 300_000) + " = 1",
        " . ".join(['"\\""'] * 100_000) + " = 1",
        "a = { " + ".".join(["'x'"] * 100_000) + " = 1 }",
        "a = 1" + "0" * 100_000,
        "a = 0x" + "f" * 100_000,
        "a = 1e" + "9" * 1000,
        'a = """' + "x" * 1_000_000,
        "a = [" + "1," * 50_000 + "]",
        "\n".join(f"key{number} = {number}" for number in range(10_000)),
        "[[checks]]\n" * 20_000,
        "[" * 500_000,
        "\x00" * 1000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_document_made_to_exhaust_the_parser_is_a_problem_like_any_other(tmp_path: Path, text: str) -> None:
    problems = problems_of(tmp_path, text)
    assert 0 < len(problems) < 400
    assert all(len(str(problem)) < 3000 for problem in problems)


CHECK = '[[checks]]\nid = "c{0}"\ngate = "patch"\nrun = "x"\n'


def test_very_many_missing_files_are_not_all_looked_for(tmp_path: Path) -> None:
    names = ", ".join(f'"data/file-{number:05}.txt"' for number in range(4000))
    neighbors = {f"data/file-{number:05}.bin": "" for number in range(100)}
    problems = problems_of(
        tmp_path, f'{MINIMAL}\n[[setup]]\nrun = "x"\nscripts = [{names}]\n', files=neighbors
    )
    assert {problem.code for problem in problems[:-1]} == {"file-missing"}
    assert problems[-1].code == "more-problems"
    assert len(problems) < 400


def test_a_broken_inventory_that_every_check_names_is_read_once(tmp_path: Path) -> None:
    broken = '{"fail_to_pass": [' + ", ".join(f'"t{number}"' for number in range(100_000)) + '], "x": 1}'
    checks = "".join(CHECK.format(number) + 'inventory = "i.json"\n' for number in range(2000))
    (problem,) = problems_of(tmp_path, MINIMAL + checks, files={"i.json": broken})
    assert (problem.code, problem.file) == ("key-unknown", "i.json")


def test_one_inventory_under_many_names_is_read_once(tmp_path: Path) -> None:
    checks = "".join(
        CHECK.format(number) + f'inventory = "{"./" * number}i.json"\n' for number in range(1, 400)
    )
    loaded = load_contract(
        write_contract(tmp_path, MINIMAL + checks, files={"i.json": '{"fail_to_pass": []}'})
    )
    assert len(loaded.inventories) == 399
    assert len({id(inventory) for inventory in loaded.inventories.values()}) == 1


def test_one_artifact_that_is_named_very_often_is_digested_once(tmp_path: Path) -> None:
    line = '[[environment.artifacts]]\nid = "a{0}"\nsource = "big"\ndigest = "{1}"\ntarget = "/opt/{0}"\n'
    text = MINIMAL + "".join(line.format(number, DIGEST) for number in range(3000))
    problems = problems_of(tmp_path, text, files={"big": bytes(4 << 20)})
    assert {problem.code for problem in problems} == {"artifact-digest", "more-problems"}
    assert len(problems) < 400


@pytest.mark.parametrize("needs", ["zz{0}", "c{1}", "c{2}"], ids=["unknown", "later", "a circle"])
def test_very_many_checks_that_need_wrong_ones_are_not_all_explained(tmp_path: Path, needs: str) -> None:
    count = 1000
    checks = "".join(
        CHECK.format(number) + f'needs = ["{needs.format(number, number + 1, (number + 1) % count)}"]\n'
        for number in range(count)
    )
    problems = problems_of(tmp_path, MINIMAL + checks)
    assert 0 < len(problems) < 400
    assert all(len(str(problem)) < 1000 for problem in problems)


def test_a_deep_array_of_very_many_items_is_located_without_listing_them(tmp_path: Path) -> None:
    text = "x = " + "[" * 150 + "0," * 300_000 + "]" * 150 + "\n" + MINIMAL
    (problem,) = problems_of(tmp_path, text)
    assert (problem.code, problem.line) == ("key-unknown", 1)
    assert len(LineIndex(text.encode())._scan.lines) < 100


def test_very_many_overlays_are_linted_in_one_pass(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(1500)]
    overlays = ", ".join(f'{{ from = "o/{name}", to = "t/{name}" }}' for name in names)
    scripts = ", ".join(f'"s/{name}"' for name in names)
    text = f'{MINIMAL}files = [{overlays}]\n[[setup]]\nrun = "x"\nscripts = [{scripts}]\n'
    files = {f"{folder}/{name}": "" for folder in "os" for name in names}
    codes = [
        problem.code for problem in lint_contract(load_contract(write_contract(tmp_path, text, files=files)))
    ]
    assert codes.count("oracle-writable") == len(names)
    assert "oracle-shown" not in codes


def test_a_statement_and_a_patch_made_to_exhaust_the_rules_are_read(tmp_path: Path) -> None:
    statement = "It must return the name. `" + "name " * 50_000
    patch = b"--- a/x.py\n+++ b/x.py\n@@ -0,0 +1 @@\n+def name(): pass\n"
    text = MINIMAL.replace("[repository]", 'reference = "r.patch"\n\n[repository]')
    directory = write_contract(tmp_path, text, files={"statement.md": statement, "r.patch": patch})
    assert lint_contract(load_contract(directory))
    (directory / "r.patch").write_bytes(b"--- a/x\n+++ b/x\n@@ -0,0 +1,1000001 @@\n" + b"+\n" * 1_000_001)
    codes = {problem.code for problem in lint_contract(load_contract(directory))}
    assert "unreadable-reference" in codes


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 1_000_000,
        '{"fail_to_pass": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"fail_to_pass": [1' + "0" * 100_000 + "]}",
        '{"fail_to_pass": ["a"], "fail_to_pass": []}',
        '{"fail_to_pass": ["\\ud800"]}',
        '{"fail_to_pass": ["a\\u0000b"]}',
        '{"fail_to_pass": [NaN]}',
        '{"fail_to_pass": [1e999999999]}',
        '\ufeff{"fail_to_pass": ["a"]}',
        '"' + "x" * 1_000_000,
        "null",
    ],
    ids=lambda text: repr(text[:20]),
)
@pytest.mark.parametrize("name", ["unit.json", "contract.lock.json"])
def test_json_made_to_exhaust_the_parser_is_a_problem_like_any_other(
    tmp_path: Path, name: str, text: str
) -> None:
    problems = problems_of(tmp_path, WITH_CHECK_FILES, files={**FILES, name: text})
    assert problems
    assert {problem.file for problem in problems} == {name}
    for problem in problems:
        str(problem).encode()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: b"\xef\xbb\xbf" + data, "file-not-utf8"),
        (lambda data: data.decode().encode("utf-16"), "file-not-utf8"),
        (lambda data: data + b'x = "\xff"\n', "file-not-utf8"),
        (lambda data: data + b'x = "\x00"\n', "toml-syntax"),
        (lambda data: data + b'x = "\\ud800"\n', "toml-syntax"),
        (lambda data: data + b'id = "twice"\nid = "twice"\n', "toml-syntax"),
        (lambda data: data + b"\n[repository]\nkind = 'git'\n", "toml-syntax"),
        (lambda data: data.replace(b"\n", b"\r"), "toml-syntax"),
        (lambda data: data.replace(b'"minimal"', b'"minimal\\n"'), "value-invalid"),
        (lambda data: data.replace(b'"minimal"', b"2024-01-01T00:00:00Z"), "value-invalid"),
        (lambda data: data.replace(b'"minimal"', '"mіnimal"'.encode()), "value-invalid"),  # noqa: RUF001 - the attack itself
        (lambda data: data.replace(COMMIT.encode(), COMMIT.encode() + b"\\n"), "value-invalid"),
        (lambda data: data.replace(b'"The smallest', b'"' + b"x" * 500_000), "value-invalid"),
    ],
)
def test_bytes_that_smuggle_something_are_refused(tmp_path: Path, change: Any, code: str) -> None:
    problems = problems_of(tmp_path, change(MINIMAL.encode()))
    assert problems[0].code == code
    assert problems[0].file == "contract.toml"
    assert len(str(problems[0])) < 1000


def test_loading_executes_nothing_and_leaves_no_trace(tmp_path: Path) -> None:
    directory = copy_fixture("rust-workspace-intern", tmp_path)
    before = sorted((path, path.stat().st_mtime_ns) for path in directory.rglob("*"))
    load_contract(directory)
    assert sorted((path, path.stat().st_mtime_ns) for path in directory.rglob("*")) == before


def check_sound(problems: list[Problem], directory: Path) -> None:
    loaded, again = check_directory(directory)
    assert again == problems
    assert (loaded is None) == any(problem.severity == "error" for problem in problems)
    for problem in problems:
        assert problem.file
        assert problem.message
        assert problem.code
        assert "\n" not in str(problem)
        str(problem).encode()


@settings(max_examples=examples(60, thorough=1000))
@given(
    data=st.one_of(
        st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
    )
)
def test_random_bytes_never_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    directory = write_contract(tmp_path_factory.getbasetemp() / "bytes", data)
    check_sound(check_directory(directory)[1], directory)


@settings(max_examples=examples(120, thorough=2000))
@given(
    name=st.sampled_from(FIXTURE_NAMES),
    file=st.sampled_from(["contract.toml", "contract.toml", "checks.json"]),
    edits=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.binary(max_size=6)), min_size=1, max_size=4
    ),
)
def test_mutilated_fixtures_never_raise(
    tmp_path_factory: pytest.TempPathFactory, name: str, file: str, edits: list[tuple[int, int, bytes]]
) -> None:
    directory = tmp_path_factory.getbasetemp() / "mutilated" / name
    if not directory.exists():
        copy_fixture(name, directory.parent)
    target = directory / file if file == "contract.toml" else next(directory.glob("checks/*.json"))
    original = (FIXTURES / name / target.relative_to(directory)).read_bytes()
    data = original
    for position, length, insert in edits:
        start = position % (len(data) + 1)
        data = data[:start] + insert + data[start + length :]
    target.write_bytes(data)
    check_sound(check_directory(directory)[1], directory)
    target.write_bytes(original)


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**400),
        st.decimals(),
        st.text(max_size=20),
        st.dates(),
        st.datetimes(),
        st.sampled_from(["host", "git", "..", "/", "a\n", "x" * 30_000, "none", "unit"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=8), st.sampled_from(["id", "kind", "run"])), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


@st.composite
def disturbed(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(FIXTURE_NAMES))
    document = fixture_document(name)
    sites = fixture_places(name)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(sites))
        try:
            document = replace_at(document, place, draw(anything))
        except (AttributeError, TypeError):  # an earlier change took the place away
            continue
    return document


@settings(max_examples=examples(150, thorough=3000))
@given(disturbed())
def test_anything_in_any_field_is_a_finding_or_sound(document: dict[str, Any]) -> None:
    conversion = convert_collecting(document, Contract)
    findings = [*conversion.findings, *iter_contradictions(build_draft(document, conversion.findings))]
    assert all(finding.message and finding.code for finding in findings)
    assert (conversion.document is None) == bool(conversion.findings)
    for finding in findings:
        assert "\n" not in finding.message
        finding.message.encode()


def test_what_the_walk_finds_sound_msgspec_finds_sound() -> None:
    """The walk is ours, the conversion msgspec's: for every field, both draw the line at the same place."""
    values: tuple[Any, ...] = ("", "x", 0, -1, 2**53, True, [], {}, [1], "9" * 30_000)
    for name, place, info in list_different_fields():
        document = fixture_document(name)
        for value in values:
            changed = replace_at(document, place, value)
            is_sound = not convert_collecting(changed, Contract).findings
            is_long_decimal = isinstance(strip(info), mi.DecimalType) and value == values[-1]
            assert is_sound == (is_convertible(changed) and not is_long_decimal), (place, value)


def list_different_fields() -> list[tuple[str, Place, mi.Type]]:
    """Each field once: the same one in another fixture, or in another item of an array, has the same type."""
    fields: dict[Any, tuple[str, Place, mi.Type]] = {}
    for name in FIXTURE_NAMES:
        for place, info in iter_sites(fixture_document(name), CONTRACT_TYPE):
            known_as = place if IS_EXHAUSTIVE else tuple(step for step in place if isinstance(step, str))
            fields.setdefault((known_as, id(info), IS_EXHAUSTIVE and name), (name, place, info))
    return list(fields.values())


def is_convertible(document: dict[str, Any]) -> bool:
    try:
        msgspec.convert(document, Contract)
    except msgspec.ValidationError:
        return False
    return True
