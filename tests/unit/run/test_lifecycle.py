"""Phases come in order, directories are made whole and never twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from numpy.random import SeedSequence

from repotrial._core.digest import digest_bytes
from repotrial._core.words import Level
from repotrial.contract import (
    AgentSpec,
    ConfigurationSpec,
    ContractRecord,
    Environment,
    RunSpec,
    load_contract,
    parse_record,
    parse_run_spec,
)
from repotrial.run import AttemptIndex, CommandAgent, NoopAgent, PatchAgent, ScriptAgent
from repotrial.run._agents import build_agent_configuration
from repotrial.run._briefing import build_briefing, verify_no_leak
from repotrial.run._context import PHASES, Lifecycle, SilentListener
from repotrial.run._directory import open_attempt
from repotrial.run._seeds import build_seeds
from repotrial.trace import RunPaths, TraceWriter, iter_events
from support.errors import raises_code
from support.traces import open_writer

EXAMPLE = Path(__file__).parents[3] / "examples" / "contracts" / "textkit-wide-chars"


def build_spec(replicate: int = 0) -> RunSpec:
    return RunSpec(
        contract_id="thing",
        contract_version_id=digest_bytes(b"v"),
        statement_digest=digest_bytes(b"s"),
        agent=AgentSpec(name="noop", version="1", adapter_digest=digest_bytes(b"a")),
        configuration=ConfigurationSpec(isolation=Level.L3),
        replicate=replicate,
    )


def build_record() -> ContractRecord:
    loaded = load_contract(EXAMPLE)
    assert loaded.lock is not None
    return ContractRecord(contract=loaded.contract, lock=loaded.lock)


@pytest.fixture
def writer(tmp_path: Path) -> TraceWriter:
    return open_writer(tmp_path / "run")


def test_phases_are_entered_in_order(writer: TraceWriter) -> None:
    lifecycle = Lifecycle(writer, SilentListener())
    for phase in PHASES:
        lifecycle.enter(phase)
    writer.close()
    kinds = [event.type for event in iter_events(writer.paths.trace)]
    assert kinds.count("phase-changed") == len(PHASES)


def test_acceptance_before_acting_is_refused(writer: TraceWriter) -> None:
    lifecycle = Lifecycle(writer, SilentListener())
    lifecycle.enter("bind")
    with raises_code("phase-order", match="expected the phase set-up, found accept"):
        lifecycle.enter("accept")
    writer.close()


def test_a_broken_run_may_be_sealed_from_any_phase_but_nothing_follows(writer: TraceWriter) -> None:
    lifecycle = Lifecycle(writer, SilentListener())
    lifecycle.enter("bind")
    lifecycle.enter("seal")
    with raises_code("phase-order"):
        lifecycle.enter("seal")
    writer.close()


def test_an_attempt_has_its_contract_and_specification_from_the_first_moment(
    tmp_path: Path,
) -> None:
    paths = open_attempt(tmp_path / "runs", build_spec(), build_record())
    assert parse_run_spec(paths.spec.read_bytes()) == build_spec()
    assert parse_record(paths.contract.read_bytes()) == build_record()


def test_a_second_attempt_is_another_directory(tmp_path: Path) -> None:
    first, second = (open_attempt(tmp_path, build_spec(), build_record()) for _ in range(2))
    assert [path.name[-3:] for path in (first.root, second.root)] == ["-a1", "-a2"]
    assert AttemptIndex(tmp_path).find(build_spec().run_id) == [first.root, second.root]
    assert AttemptIndex(tmp_path).find(build_spec(1).run_id) == []


def test_an_index_of_attempts_finds_directories_with_a_number_in_their_order(tmp_path: Path) -> None:
    specs = [build_spec(number) for number in range(3)]
    for name in ("a2", "a10", "a1", "a03", "ax", "a", "b1"):
        (tmp_path / f"{specs[0].run_id}-{name}").mkdir()
    (tmp_path / f"{specs[1].run_id}-a1").touch()
    (tmp_path / "-a1").mkdir()
    index = AttemptIndex(tmp_path)
    assert [len(index.find(spec.run_id)) for spec in specs] == [4, 0, 0]
    assert [path.name[-2:] for path in index.find(specs[0].run_id)] == ["a1", "a2", "03", "10"]
    assert AttemptIndex(tmp_path / "nowhere").find(specs[0].run_id) == []


def test_a_number_that_somebody_else_took_is_passed_over(tmp_path: Path) -> None:
    spec = build_spec()
    (tmp_path / f"{spec.run_id}-a1").write_text("not a directory")
    assert open_attempt(tmp_path, spec, build_record()).root.name.endswith("-a2")


def test_two_harnesses_never_get_the_same_attempt(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = pool.map(lambda _: open_attempt(tmp_path, build_spec(), build_record()).root, range(24))
        assert len({*opened}) == 24
    assert all(RunPaths(path).contract.is_file() for path in tmp_path.iterdir())


def test_no_place_for_runs_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises_code("run-directory", match="file"):
        open_attempt(tmp_path / "file" / "runs", build_spec(), build_record())


def test_nothing_half_made_is_left_under_a_runs_name(tmp_path: Path) -> None:
    open_attempt(tmp_path, build_spec(), build_record())
    assert all(RunPaths(path).spec.is_file() for path in tmp_path.iterdir())


def test_other_bytes_make_another_agent() -> None:
    configurations = {
        build_agent_configuration(agent, reference_digest=None).adapter_digest
        for agent in (
            NoopAgent(),
            PatchAgent(patch=b"a"),
            PatchAgent(patch=b"b"),
            ScriptAgent(script=b"a"),
            CommandAgent(argv=("a", "b")),
            CommandAgent(argv=("a b",)),
        )
    }
    assert len(configurations) == 6


def test_streams_differ_by_replicate_and_purpose_and_are_spawned_from_the_root_seed() -> None:
    host = Environment(image="host")
    found = [build_seeds(build_spec(replicate), host) for replicate in (0, 1)]
    assert len({stream.spawn_key for seeds in found for stream in seeds.streams}) == 4
    assert build_seeds(build_spec(3), host).streams[1].spawn_key == (3, 1)
    values = [seeds.test_variables["REPOTRIAL_SEED"] for seeds in found]
    values += [dict(seeds.agent_variables or {})["REPOTRIAL_SEED"] for seeds in found]
    assert len(set(values)) == 4
    # Anyone can draw them again from what the manifest has.
    stream = found[1].streams[1]
    assert values[1] == str(SeedSequence(found[1].root, spawn_key=stream.spawn_key).generate_state(1)[0])


def test_what_a_contract_sets_or_wants_unset_is_not_seeded() -> None:
    pinned = Environment(image="host", variables={"PYTHONHASHSEED": "0"}, absent=("REPOTRIAL_SEED",))
    seeds = build_seeds(build_spec(), pinned)
    assert (seeds.test_variables, seeds.agent_variables) == ({}, {})


def test_a_briefing_keeps_issue_and_obligations_apart_and_states_the_rules() -> None:
    loaded = load_contract(EXAMPLE)
    briefing = build_briefing(loaded.contract, loaded.statement)
    assert briefing.issue.startswith(f"# {loaded.contract.title}")
    assert any("Leave these files alone" in item for item in briefing.obligations)
    assert all(item in briefing.delivered for item in (*briefing.obligations, *briefing.hints))


def test_what_the_author_clarifies_is_told() -> None:
    contract = load_contract(EXAMPLE).contract
    clarify = structs.replace(contract.clarify, behavior=("It wraps.",), hints=("Look at cells.",))
    briefing = build_briefing(structs.replace(contract, clarify=clarify), "Do it.")
    assert "It wraps." in briefing.obligations
    assert "Look at cells." in briefing.hints


def test_a_statement_with_lines_of_the_reference_is_not_given_to_an_agent() -> None:
    loaded = load_contract(EXAMPLE)
    verify_no_leak(loaded)
    assert loaded.reference is not None
    added = [line[1:] for line in loaded.reference.decode().splitlines() if line.startswith("+ ")]
    leaking = replace(loaded, statement="\n".join([loaded.statement, *added]))
    with raises_code("briefing-leak"):
        verify_no_leak(leaking)
