from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import Unknown
from repotrial._core.canonical import canonical_bytes
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial.redaction import SecretRedactor
from repotrial.trace import (
    AgentFacts,
    ArchiveIdentity,
    Manifest,
    ModelFacts,
    RunFacts,
    Seeds,
    load_manifest,
    write_manifest,
)
from repotrial.trace._manifest import MANIFEST_SCHEMA, build_comparability_class
from repotrial.trace._manifest_file import MAX_MANIFEST_BYTES, parse_manifest
from support.errors import raises_code
from support.run_directories import build_example_manifest, build_facts
from support.traces import full_disk


def document(**changes: Any) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(build_example_manifest())
    return {**tree, **changes}


def test_a_written_manifest_is_read_back_equal(tmp_path: Path) -> None:
    manifest = build_example_manifest()
    data = write_manifest(tmp_path / "manifest.json", manifest)
    assert (tmp_path / "manifest.json").read_bytes() == data
    assert load_manifest(tmp_path / "manifest.json") == manifest


def test_the_file_is_canonical_json(tmp_path: Path) -> None:
    data = write_manifest(tmp_path / "manifest.json", build_example_manifest())
    assert data == canonical_bytes(json.loads(data))


def test_a_manifest_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    write_manifest(path, build_example_manifest())
    with raises_code("manifest-exists"):
        write_manifest(path, build_example_manifest("run-2"))
    assert load_manifest(path).run_id == "run-1"


def test_a_manifest_with_a_wrong_field_is_not_written(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(build_example_manifest(), started_at_us=-1)
    with raises_code("manifest-invalid", match="started_at_us"):
        write_manifest(tmp_path / "manifest.json", bad)
    unspeakable = msgspec.structs.replace(build_example_manifest(), locale="\ud800")
    with raises_code("manifest-invalid", match="locale"):
        write_manifest(tmp_path / "manifest.json", unspeakable)
    assert list(tmp_path.iterdir()) == []


def test_a_secret_in_a_manifest_is_refused_by_name(tmp_path: Path) -> None:
    redactor = SecretRedactor({"API_KEY": "hunter2hunter2"})
    facts = msgspec.structs.replace(build_facts(), machine_settings={"proxy": "http://u:hunter2hunter2@host"})
    with raises_code("manifest-invalid") as caught:
        write_manifest(tmp_path / "manifest.json", facts.build_manifest(), redactor=redactor)
    assert "secret:API_KEY" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_all_problems_are_listed_at_once() -> None:
    tree = document(locale="", extra=1, harness={"version": "1"}, repository={"kind": "git", "commit": "x"})
    tree["agent"]["temperature"] = 0.7
    tree["dependencies"]["lockfiles"][0]["digest"] = "md5:1"
    tree["toolchain"]["python"] = 3
    del tree["seeds"]
    with raises_code("manifest-invalid") as caught:
        parse_manifest(json.dumps(tree).encode())
    for place in (
        "agent.temperature:",
        "dependencies.lockfiles[0].digest:",
        "extra: expected no such field",
        "harness.entry_points: expected a value, found none",
        "locale:",
        "repository.commit:",
        "repository.tree_digest: expected a value, found none",
        "seeds: expected a value, found none",
        "toolchain.python:",
    ):
        assert f"- {place}" in caught.value.message
    assert "found 9 problem(s)" in caught.value.message


@pytest.mark.parametrize("schema", ["repotrial/manifest@3", "repotrial/manifest@1.1", "repotrial/manifest@"])
def test_another_major_version_is_refused(schema: str) -> None:
    with raises_code("manifest-version") as caught:
        parse_manifest(json.dumps(document(schema=schema, locale=1)).encode())
    assert MANIFEST_SCHEMA in caught.value.message
    assert schema in caught.value.message


GOLDEN = Path(__file__).parents[2] / "data" / "golden-runs"
SINCE_2 = (
    "agent.adapter_digest",
    "agent.parameters",
    "configuration.logging",
    "configuration_files",
    "dependencies.lockfiles[0].origin",
    "environment.covers",
    "environment.pins",
    "seeds.agent_variables",
    "workspace",
)


@pytest.mark.parametrize("place", SINCE_2)
def test_a_field_that_version_2_asks_for_is_missed_by_its_name(place: str) -> None:
    tree = document()
    del _find_parent(tree, place)[place.rpartition(".")[2]]
    with raises_code("manifest-invalid", match=rf"- {re.escape(place)}: expected a value, found none"):
        parse_manifest(canonical_bytes(tree))


@pytest.mark.parametrize("place", SINCE_2)
def test_version_1_has_none_of_what_came_later(place: str) -> None:
    tree = document(schema="repotrial/manifest@1")
    with raises_code("manifest-invalid", match=rf"- {re.escape(place)}: expected no such field, found one"):
        parse_manifest(canonical_bytes(tree))


def _find_parent(tree: dict[str, Any], place: str) -> dict[str, Any]:
    for step in place.split(".")[:-1]:
        name, _, index = step.partition("[")
        tree = tree[name][int(index[:-1])] if index else tree[name]
    return tree


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/manifest.json")), ids=lambda path: path.parent.name)
def test_version_1_is_read_for_ever_and_keeps_its_class(path: Path) -> None:
    manifest = load_manifest(path)
    assert manifest.schema == "repotrial/manifest@1"
    assert build_comparability_class(manifest, schema=manifest.schema) == manifest.comparability_class
    assert canonical_bytes(msgspec.to_builtins(manifest)) == path.read_bytes()


def test_the_agent_is_outside_of_what_is_compared() -> None:
    """Reference, Claude Code and Codex on one contract: stages and who answers differ alone."""
    reference = build_facts()
    configuration = msgspec.structs.replace(
        reference.configuration, stages="single", models=_build_models(thresholds="a")
    )
    asking = msgspec.structs.replace(reference, configuration=configuration)
    assert reference.build_manifest().list_differences(asking.build_manifest()) == []
    assert build_class(reference) == build_class(asking)


def test_thresholds_and_prices_of_ones_own_are_declared_by_name() -> None:
    facts = build_facts()
    own = _build_models(thresholds="b", thresholds_source="own", prices_source="own")
    other = msgspec.structs.replace(
        facts, configuration=msgspec.structs.replace(facts.configuration, models=own)
    )
    found = facts.build_manifest().list_differences(other.build_manifest())
    assert [difference.field for difference in found] == [
        "configuration.models.price_method",
        "configuration.models.thresholds",
    ]


def test_only_the_run_that_fills_the_cache_asks_mirrors_and_both_are_compared() -> None:
    facts = build_facts()
    first = msgspec.structs.replace(
        facts, dependencies=msgspec.structs.replace(facts.dependencies, mirrors=("https://index.example",))
    )
    assert build_class(first) == build_class(facts)


def _build_models(**changes: Any) -> ModelFacts:
    fields = {
        "upstream": "provider",
        "price_method": "book",
        "thresholds_source": "built-in",
        "prices_source": "built-in",
    }
    return ModelFacts(**{**fields, **changes})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no schema"),
        pytest.param(b'{"schema": 1}', id="schema is a number"),
        pytest.param(b'{"schema": "repotrial/contract@1"}', id="another document"),
        pytest.param(b"[" * 100_000, id="deep nesting"),
        pytest.param(
            b'{"schema":"repotrial/manifest@1","a":' + b"[" * 900 + b"]" * 900 + b"}", id="nested field"
        ),
        pytest.param(b'{"schema":"repotrial/manifest@1","run_id":NaN}', id="NaN"),
    ],
)
def test_what_is_no_manifest_is_refused_by_name(data: bytes) -> None:
    with raises_code("manifest-invalid"):
        parse_manifest(data)


def test_the_same_content_in_another_form_is_refused() -> None:
    data = canonical_bytes(document())
    parse_manifest(data)
    for other in (
        json.dumps(document(), indent=1).encode(),
        data + b"\n",
        data.replace(b'"locale":', b'"locale":"x","locale":'),
        data.replace(b'"submodules":[{', b'"submodules":[ {'),
    ):
        with raises_code("manifest-invalid", match="canonical"):
            parse_manifest(other)


def test_a_number_in_another_spelling_is_refused() -> None:
    with raises_code("manifest-invalid", match=r"seeds\.root"):
        parse_manifest(canonical_bytes(document()).replace(b"20260307", b"20260307.0"))


def test_a_forged_comparability_class_is_refused() -> None:
    with raises_code("manifest-invalid", match="comparability_class"):
        parse_manifest(canonical_bytes(document(comparability_class=digest_bytes(b"other"))))


def test_a_missing_huge_or_linked_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    with raises_code("trace-unreadable"):
        load_manifest(path)
    path.write_bytes(b" " * (MAX_MANIFEST_BYTES + 1))
    with raises_code("manifest-invalid", match="at most"):
        load_manifest(path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with raises_code("trace-unreadable"):
        load_manifest(link)


def test_an_archive_and_unknown_identities_survive_the_file() -> None:
    for repository in (
        ArchiveIdentity(archive_digest=digest_bytes(b"a"), tree_digest=digest_bytes(b"t")),
        Unknown(reason="the clone was interrupted"),
    ):
        manifest = msgspec.structs.replace(build_facts(), repository=repository).build_manifest()
        assert parse_manifest(canonical_bytes(msgspec.to_builtins(manifest))) == manifest


@pytest.mark.parametrize(
    "name", ["agent", "machine_settings", "redaction_rules_id", "run_id", "seeds", "started_at_us"]
)
def test_what_may_differ_between_compared_runs_leaves_the_class_alone(name: str) -> None:
    facts = build_facts()
    changed = msgspec.structs.replace(facts, **{name: other_value(facts, name)})
    assert changed != facts
    assert build_class(changed) == build_class(facts)


@pytest.mark.parametrize(
    "name",
    sorted(
        set(RunFacts.__struct_fields__)
        - {"agent", "machine_settings", "redaction_rules_id", "run_id", "seeds", "started_at_us"}
    ),
)
def test_every_other_field_changes_the_class(name: str) -> None:
    facts = build_facts()
    changed = msgspec.structs.replace(facts, **{name: other_value(facts, name)})
    assert build_class(changed) != build_class(facts)


def build_class(facts: RunFacts) -> str:
    return build_comparability_class(facts, schema=MANIFEST_SCHEMA)


def other_value(facts: RunFacts, name: str) -> Any:
    value = getattr(facts, name)
    match value:
        case int():
            return value + 1
        case str():
            return value + "x"
        case dict():
            return {**value, "more": "1"}
        case AgentFacts():
            return msgspec.structs.replace(value, name="other")
        case Seeds():
            return Seeds(root=7)
        case _:
            first = next(iter(value.__struct_fields__))
            return msgspec.structs.replace(value, **{first: Unknown(reason="changed")})


def test_every_field_that_the_protocol_asks_for_is_there() -> None:
    assert set(Manifest.__struct_fields__) == {
        *("run_id", "contract", "repository", "dependencies", "environment", "package_managers", "toolchain"),
        *("harness", "variables", "configuration", "seeds", "agent", "locale", "time_zone", "cpu_class"),
        *(
            "memory_class",
            "started_at_us",
            "redaction_rules_id",
            "machine_settings",
            "configuration_files",
            "workspace",
            "schema",
            "comparability_class",
        ),
    }


@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_a_named_error(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_manifest(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(Manifest.__struct_fields__), json_values)
def test_no_value_of_a_field_ends_in_anything_but_a_named_error(name: str, value: Any) -> None:
    data = json.dumps(document(**{name: value})).encode()
    with contextlib.suppress(EvidenceError):
        parse_manifest(data)


@given(st.data())
def test_no_edit_of_the_bytes_ends_in_anything_but_a_named_error(data: st.DataObject) -> None:
    whole = canonical_bytes(document())
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    edited = whole[:start] + data.draw(st.binary(max_size=8)) + whole[end:]
    with contextlib.suppress(EvidenceError):
        assert canonical_bytes(msgspec.to_builtins(parse_manifest(edited))) == edited


def test_a_full_disk_leaves_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    with full_disk(100), raises_code("trace-write"):
        write_manifest(path, build_example_manifest())
    assert list(tmp_path.iterdir()) == []
