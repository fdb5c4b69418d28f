"""RunSpec: one id for one run, whoever computes it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import UsageError
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.contract import (
    AgentSpec,
    ConfigurationSpec,
    Limits,
    ReplayNetwork,
    RunCaps,
    RunSpec,
    parse_run_spec,
)
from support.errors import raises_code

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64

IDENTIFIERS = st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,6}", fullmatch=True).filter(lambda s: len(s) <= 100)
DIGESTS = st.integers(0, 2**256 - 1).map(lambda n: f"sha256:{n:064x}")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
KEYS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=10)
POSITIVE = st.integers(1, 1000)
CENTS = st.integers(0, 10_000).map(lambda n: Decimal(n) / 100)
BAND = msgspec.structs.replace(Limits().memory_mb, request=1, kill=2)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


SPECS = st.builds(
    RunSpec,
    contract_id=IDENTIFIERS,
    contract_version_id=DIGESTS,
    statement_digest=DIGESTS,
    agent=st.builds(
        AgentSpec,
        name=IDENTIFIERS,
        version=TEXT,
        model=maybe(TEXT),
        parameters=st.dictionaries(KEYS, st.integers(-1000, 1000) | st.booleans() | TEXT, max_size=4),
        prompts_digest=maybe(DIGESTS),
        adapter_digest=DIGESTS,
    ),
    configuration=st.builds(
        ConfigurationSpec,
        isolation=st.sampled_from(["L3", "L3c", "L2", "L1", "L0"]),
        stages=st.sampled_from(["as-contract", "explicit", "automatic", "single"]),
        network=st.sampled_from(["as-contract", "none", ReplayNetwork(recording="net")]),
        caps=st.builds(RunCaps, wall_seconds=maybe(POSITIVE), cost_usd=maybe(CENTS), tokens=maybe(POSITIVE)),
    ),
    root_seed=st.integers(0, 2**53 - 1),
    replicate=st.integers(0, 100),
)


def full_spec() -> RunSpec:
    """Every field filled, so that every field can be changed."""
    return RunSpec(
        contract_id="textkit-wide-chars",
        contract_version_id=A,
        statement_digest=A,
        agent=AgentSpec(
            name="mini",
            version="1.2",
            model="m-1",
            parameters={"temperature": "0.7"},
            prompts_digest=A,
            adapter_digest=A,
        ),
        configuration=ConfigurationSpec(
            isolation=Level.L3,
            caps=RunCaps(
                wall_seconds=1,
                command_seconds=1,
                cpu_seconds=1,
                cost_usd=Decimal("5.00"),
                tokens=1,
                tool_calls=1,
                failed_check_cycles=1,
                memory_mb=BAND,
                disk_mb=BAND,
                processes=1,
                output_mb=1,
            ),
        ),
    )


OTHER_VALUES: dict[str, Any] = {"stages": "single", "network": "none", "isolation": "L2", "cost_usd": "4.99"}


def iter_changed(document: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The document with one leaf changed, for every leaf."""
    for key, value in document.items():
        where = f"{path}.{key}".lstrip(".")
        if key == "schema":
            yield where, document | {key: "repotrial/run-spec@1.1"}
        elif isinstance(value, dict):
            for inner, changed in iter_changed(value, where):
                yield inner, document | {key: changed}
        elif isinstance(value, str) and value.startswith("sha256:"):
            yield where, document | {key: B}
        else:
            other = OTHER_VALUES.get(key, value + 1 if isinstance(value, int) else f"{value}x")
            yield where, document | {key: other}


CHANGES = dict(iter_changed(json.loads(full_spec().to_bytes())))


def parse(document: dict[str, Any]) -> RunSpec:
    return parse_run_spec(json.dumps(document).encode())


def test_every_field_has_a_change_to_try() -> None:
    spec, agent, configuration, caps = 6, 6, 3, 13  # a band has two leaves
    assert len(CHANGES) == spec + agent + configuration + caps


@pytest.mark.parametrize("field", CHANGES)
def test_any_change_changes_the_id(field: str) -> None:
    assert parse(CHANGES[field]).run_spec_id != full_spec().run_spec_id


def test_leaving_out_a_cap_changes_the_id() -> None:
    document = json.loads(full_spec().to_bytes())
    for name in document["configuration"]["caps"]:
        caps = document["configuration"]["caps"] | {name: None}
        changed = document | {"configuration": document["configuration"] | {"caps": caps}}
        assert parse(changed).run_spec_id != full_spec().run_spec_id, name


@given(SPECS, SPECS)
def test_ids_are_equal_exactly_when_specs_are(one: RunSpec, other: RunSpec) -> None:
    assert (one.run_spec_id == other.run_spec_id) == (one.to_canonical() == other.to_canonical())


@given(SPECS)
def test_spec_round_trips_through_json(spec: RunSpec) -> None:
    again = parse_run_spec(spec.to_bytes())
    assert again == spec
    assert again.run_spec_id == spec.run_spec_id
    assert again.to_bytes() == spec.to_bytes()


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return value


@given(SPECS)
def test_key_order_and_spacing_do_not_change_the_id(spec: RunSpec) -> None:
    text = json.dumps(shuffled(json.loads(spec.to_bytes())), indent=3)
    assert parse_run_spec(text.encode()).run_spec_id == spec.run_spec_id


@given(SPECS)
def test_run_id_is_a_safe_file_name(spec: RunSpec) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", spec.run_id)
    assert ".." not in spec.run_id
    assert len(spec.run_id) <= 200
    assert spec.run_id.endswith(f"-r{spec.replicate}-{spec.run_spec_id[7:17]}")


@given(st.text(max_size=80), st.text(max_size=80))
def test_run_id_is_safe_even_for_names_that_nobody_validated(contract: str, agent: str) -> None:
    spec = msgspec.structs.replace(
        full_spec(), contract_id=contract, agent=msgspec.structs.replace(full_spec().agent, name=agent)
    )
    try:
        name = spec.run_id
    except UsageError as error:  # lone surrogates have no digest
        if error.code != "not-canonical":
            raise
        return
    assert re.fullmatch(r"[a-z0-9_][a-z0-9._-]*", name)
    assert not name.startswith(("-", "."))


def test_run_id_can_be_read() -> None:
    digest = full_spec().run_spec_id.removeprefix("sha256:")
    assert full_spec().run_id == f"textkit-wide-chars-mini-r0-{digest[:10]}"


def test_id_is_what_an_independent_implementation_computes() -> None:
    tagged = ["repotrial/run-spec-id@1", json.loads(full_spec().to_bytes())]
    assert full_spec().run_spec_id == "sha256:" + hashlib.sha256(rfc8785.dumps(tagged)).hexdigest()


def test_id_does_not_change_between_releases() -> None:
    assert (
        full_spec().run_spec_id == "sha256:1752d614525d6a9ff46d29111a0f98da57d5d137beeb5cbb2a8e90f6159c6c50"
    )


def test_spelling_of_a_decimal_does_not_change_the_id() -> None:
    document = json.loads(full_spec().to_bytes())
    document["configuration"]["caps"]["cost_usd"] = "5.000"
    assert parse(document).run_spec_id == full_spec().run_spec_id


def test_float_parameters_have_no_id() -> None:
    agent = msgspec.structs.replace(full_spec().agent, parameters={"temperature": 0.7})
    with raises_code("not-canonical", match="temperature"):
        _ = msgspec.structs.replace(full_spec(), agent=agent).run_spec_id


def test_the_planned_seed_never_changes() -> None:
    assert full_spec().root_seed == ROOT_SEED == 20260307


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "repotrial/run-spec@2"),
        ("contract_id", "../up"),
        ("contract_version_id", "abc"),
        ("replicate", -1),
        ("root_seed", 2**53),
        ("unknown", 1),
    ],
)
def test_bad_field_is_refused_by_name(field: str, value: object) -> None:
    with raises_code("run-spec", match=field):
        parse(json.loads(full_spec().to_bytes()) | {field: value})


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-1", "1e999999", "1e-999999", 1e300])
def test_impossible_cost_is_refused(cost: object) -> None:
    document = json.loads(full_spec().to_bytes())
    document["configuration"]["caps"]["cost_usd"] = cost
    with raises_code("run-spec", match="cost_usd"):
        parse(document)


@given(st.binary(max_size=100))
def test_no_bytes_end_in_a_traceback(data: bytes) -> None:
    with raises_code("run-spec"):
        parse_run_spec(data)
