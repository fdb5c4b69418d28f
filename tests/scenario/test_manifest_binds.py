"""A manifest that is true and binds: each thing that decides about a run has a field of its own (P2, P10)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial import api
from repotrial._core.absence import Unknown
from repotrial.authoring import lock_contract
from repotrial.policy import read_thresholds
from repotrial.run._watch._configuration import ConfigurationLog
from repotrial.trace import AgentConfiguration, Manifest, RunPaths, load_manifest
from support.command_line import call
from support.model_agents import TINY, ModelRun, finish, shell, try_script
from support.trials import HONEST, Court, open_court

_STEPS = (shell("sed -i s/41/42/ answer.sh"), finish())
_OF_THE_ATTEMPT = {"run_id", "started_at_us"}


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def flatten(value: Any, where: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {
            place: leaf
            for key, item in value.items()
            for place, leaf in flatten(item, f"{where}.{key}" if where else key).items()
        }
    return {where: value}


def read_bound(run: ModelRun) -> dict[str, Any]:
    """Everything that a run is bound to, by its place: the manifest, and the agent's configuration."""
    manifest = json.loads(RunPaths(run.directory).manifest.read_bytes())
    found = flatten({name: value for name, value in manifest.items() if name not in _OF_THE_ATTEMPT})
    for event in run.list_of(AgentConfiguration):
        payload = msgspec.to_builtins(event.payload)
        found |= flatten(
            {name: value for name, value in payload.items() if name not in {"prompt", "response"}}, "wire"
        )
    return found


def list_changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    return {place for place in {*one, *other} if one.get(place) != other.get(place)}


def write_agent(court: Court, name: str, old: str, new: str) -> str:
    """The tiny agent, with something else in its requests."""
    text = TINY.read_text()
    assert old in text
    return f"agent:{court.write(f'{name}.toml', text.replace(old, new))}"


def run_tiny(court: Court, capsys: pytest.CaptureFixture[str], *words: str | Path, **named: Any) -> ModelRun:
    return try_script(court, capsys, _STEPS, *words, **named)


def test_facts_of_the_agent_are_bound_at_its_first_exchange(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_tiny(court, capsys)
    assert run.status == "success"
    (event,) = run.list_of(AgentConfiguration)
    found = event.payload
    assert isinstance(found, AgentConfiguration)
    assert (found.model_asked, found.model_answering, found.max_output_tokens) == (
        "canned-model",
        "canned-model",
        512,
    )
    assert [tool.name for tool in found.tools] == ["shell"]
    assert isinstance(found.temperature, Unknown)
    assert "does not set it" in found.temperature.reason
    types = [item.type for item in run.events[found.prompt : event.seq]]
    assert (types[0], types[-1]) == ("prompt", "response")
    assert RunPaths(run.directory).seal.is_file()


def test_the_context_limit_that_an_adapter_sets_is_on_record(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    without = run_tiny(court, capsys).list_of(AgentConfiguration)[0].payload
    assert isinstance(without, AgentConfiguration)
    assert isinstance(without.context_tokens, Unknown)
    assert "the adapter states none" in without.context_tokens.reason
    agent = write_agent(court, "bounded", "[launch]", "[caps]\ncontext_tokens = 5000\n\n[launch]")
    told = run_tiny(court, capsys, agent=agent).list_of(AgentConfiguration)[0].payload
    assert isinstance(told, AgentConfiguration)
    assert told.context_tokens == 5000


@pytest.mark.parametrize(
    ("name", "old", "new", "place"),
    [
        ("temperature", '"max_tokens": 512}', '"max_tokens": 512, "temperature": 0.5}', "temperature"),
        (
            "tool",
            '"name": "shell", "parameters"',
            '"name": "shell", "description": "x", "parameters"',
            "tools",
        ),
        (
            "prompt",
            'messages = [{"role": "user"',
            'messages = [{"role": "system", "content": "Be brief."}, {"role": "user"',
            "prompts",
        ),
        ("limit", '"max_tokens": 512', '"max_tokens": 256', "max_output_tokens"),
    ],
)
def test_a_setting_of_the_agent_changes_its_own_field(
    name: str, old: str, new: str, place: str, court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    before = read_bound(run_tiny(court, capsys, contract=contract))
    agent = write_agent(court, name, old, new)
    after = read_bound(run_tiny(court, capsys, contract=contract, agent=agent))
    changed = {field for field in list_changed(before, after) if not field.startswith(f"wire.{place}")}
    # Beside the field itself: the digest over the adapter, whose bytes are others.
    assert changed == {"agent.adapter_digest"}
    assert any(field.startswith(f"wire.{place}") for field in list_changed(before, after))


def test_the_manifest_has_the_class_of_this_machine(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    bound = read_bound(run_tiny(court, capsys, contract=court.write_contract()))
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    (kibibytes,) = (int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
    processors = Path("/proc/cpuinfo").read_text(encoding="utf-8").count("processor\t:")
    assert bound["cpu_class"] == f"{os.uname().machine} x{processors}"
    assert bound["memory_class"] == f"{max(1, round(kibibytes / 2**20))} GiB"


def test_another_seed_changes_seeds_alone(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    contract = court.write_contract()
    before = read_bound(run_tiny(court, capsys, contract=contract))
    after = read_bound(run_tiny(court, capsys, "--seed", "1337", contract=contract))
    assert list_changed(before, after) == {
        "seeds.root",
        "seeds.agent_variables.PYTHONHASHSEED",
        "seeds.agent_variables.REPOTRIAL_SEED",
        "seeds.test_variables.PYTHONHASHSEED",
        "seeds.test_variables.REPOTRIAL_SEED",
    }


def test_another_threshold_changes_thresholds_alone(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    contract = court.write_contract()
    before = read_bound(run_tiny(court, capsys, contract=contract))
    own = court.write("own.toml", read_thresholds().decode().replace("percent = 80", "percent = 81"))
    after = read_bound(run_tiny(court, capsys, "--thresholds", own, contract=contract))
    assert list_changed(before, after) == {
        "configuration.models.thresholds",
        "configuration.models.thresholds_source",
        "comparability_class",
    }


def test_a_byte_of_a_lock_file_in_the_tree_changes_its_own_digest(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    found = []
    for text in ("version = 1\n", "version = 2\n"):
        (contract / "repo/uv.lock").write_text(text)
        lock_contract(contract)
        found.append(read_bound(run_tiny(court, capsys, contract=contract)))
    assert list_changed(*found) == {
        "dependencies.lockfiles",
        "repository.tree_digest",
        "contract.version_id",
        "workspace.digest",
        "comparability_class",
    }
    (locks,) = ({lock["path"]: lock["origin"] for lock in one["dependencies.lockfiles"]} for one in found[:1])
    assert locks == {"uv.lock": "tree"}


def test_another_environment_variable_changes_its_own_field(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for value in ("1", "2"):
        contract = court.write_contract(environment=f'variables = {{ FLAVOR = "{value}" }}')
        found.append(read_bound(run_tiny(court, capsys, contract=contract)))
    assert list_changed(*found) == {"variables.present.FLAVOR", "contract.version_id", "comparability_class"}


_SEEDED = (
    'test -n "$REPOTRIAL_SEED" && test "$PYTHONHASHSEED" = "$REPOTRIAL_SEED" && test "$(sh answer.sh)" = 42'
)
_SHOW_SEEDS = 'echo "seen $REPOTRIAL_SEED $PYTHONHASHSEED"'


def test_a_script_and_the_tests_see_the_seeds_that_the_manifest_has(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    script = court.write("honest.sh", f"{HONEST}{_SHOW_SEEDS}\n")
    contract = court.write_contract(value=_SEEDED)
    status, told = court.start_json(capsys, contract, "--agent", f"script:{script}")
    assert status == 0
    (entry,) = (event["entry"] for event in told if event["event"] == "scored")
    _verify_seeds(ModelRun(Path(entry["directory"]), entry["status"]))


def test_an_agent_that_asks_a_model_sees_the_seeds_that_the_manifest_has(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract(value=_SEEDED)
    steps = (shell(f"sed -i s/41/42/ answer.sh; {_SHOW_SEEDS}"), finish())
    _verify_seeds(try_script(court, capsys, steps, contract=contract))


def _verify_seeds(run: ModelRun) -> None:
    assert run.status == "success"
    seeds = load_manifest(RunPaths(run.directory).manifest).seeds
    variables = seeds.agent_variables
    assert isinstance(variables, dict)
    expected = f"seen {variables['REPOTRIAL_SEED']} {variables['PYTHONHASHSEED']}"
    assert expected in RunPaths(run.directory).trace.read_text()
    assert set(seeds.test_variables) == {"REPOTRIAL_SEED", "PYTHONHASHSEED"}


def test_a_configuration_that_changes_on_the_way_is_told_where_it_changes(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = write_agent(
        court, "fickle", '"max_tokens": 512}', '"max_tokens": 512, "temperature": len(messages)}'
    )
    run = run_tiny(court, capsys, agent=agent)
    told = [event.payload for event in run.list_of(AgentConfiguration)]
    assert [item.temperature for item in told if isinstance(item, AgentConfiguration)] == ["1", "3"]


def test_a_run_without_the_agents_configuration_is_invalid_by_name(
    court: Court, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConfigurationLog, "record", lambda *_, **__: None)
    run = run_tiny(court, capsys)
    assert run.status == "invalid"
    reasons = [reason.message for reason in api.judge_run(run.directory).reasons]
    assert any(
        "conversation main: expected an agent-configuration event, found none" in text for text in reasons
    )


@pytest.mark.parametrize(
    "place",
    [
        "workspace",
        "configuration_files",
        "seeds",
        "configuration.logging",
        "environment.covers",
        "agent.adapter_digest",
    ],
)
def test_a_manifest_that_leaves_out_a_required_field_makes_the_run_invalid_by_name(
    place: str, finished_run: Path
) -> None:
    path = RunPaths(finished_run).manifest
    kept = path.read_bytes()
    tree = json.loads(kept)
    *parents, last = place.split(".")
    inner = tree
    for name in parents:
        inner = inner[name]
    del inner[last]
    path.write_bytes(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())
    try:
        judged = api.judge_run(finished_run)
    finally:
        path.write_bytes(kept)
    assert judged.entry.status == "invalid"
    assert any(f"{place}: expected a value, found none" in reason.message for reason in judged.reasons)
    assert api.judge_run(finished_run).entry.status == "success"


@pytest.fixture(scope="module")
def finished_run() -> Iterator[Path]:
    with open_court() as court:
        script = court.write("honest.sh", HONEST)
        court.execute(court.write_contract(), "--agent", f"script:{script}")
        yield court.runs / court.list_runs()[0]


def test_reference_and_an_agent_that_asks_a_model_are_comparable(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    tiny = run_tiny(court, capsys, contract=contract)
    status, told = court.start_json(capsys, contract, "--agent", "reference")
    assert status == 0
    (entry,) = (event["entry"] for event in told if event["event"] == "scored")
    found = api.compare_runs(tiny.directory, Path(entry["directory"]))
    assert found.differences == ()
    assert found.is_comparable
    one, other = (
        load_manifest(RunPaths(Path(side)).manifest) for side in (tiny.directory, entry["directory"])
    )
    assert isinstance(one, Manifest)
    assert one.comparability_class == other.comparability_class


def test_thresholds_and_prices_of_ones_own_are_deviations_in_every_report(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    own = court.write("own.toml", read_thresholds().decode().replace("percent = 80", "percent = 81"))
    (bundled,) = (resources.files("repotrial.cost") / "_data").iterdir()
    *lines, _ = bundled.read_text().splitlines(keepends=True)
    prices = court.write("prices.csv", "".join(lines))
    contract = court.write_contract()
    plain = run_tiny(court, capsys, contract=contract)
    assert api.judge_run(plain.directory).entry.deviations == ()
    run = run_tiny(court, capsys, "--thresholds", own, "--prices", prices, contract=contract)
    report = json.loads(RunPaths(run.directory).report.read_bytes())
    assert [remark["code"] for remark in report["deviations"]] == ["own-thresholds", "own-prices"]
    summary = api.summarize_runs(court.runs).summary
    assert summary.deviations == {"own-prices": 1, "own-thresholds": 1}
    for words in (("run", "summary"), ("run", "list")):
        printed = call(capsys, *words, court.runs).out
        assert "own-prices in 1 of 2 run(s), own-thresholds in 1 of 2 run(s)" in " ".join(printed.split())
    api.write_summary_page(api.summarize_runs(court.runs), court.runs.parent / "page.html")
    page = (court.runs.parent / "page.html").read_text(encoding="utf-8")
    assert "own-prices in 1 of 2 run(s)" in page
    assert "pin constraints" in page


def test_runs_of_two_root_seeds_are_counted_together_under_a_label_only(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    for seed in ("20260307", "1337"):
        assert court.start_json(capsys, contract, "--agent", "reference", "--seed", seed)[0] == 0
    collected = api.summarize_runs(court.runs)
    label = "provisional over the root seeds 1337, 20260307"
    assert collected.summary.root_seeds == (1337, 20260307)
    assert label in collected.summary.aggregate.label
    assert collected.summary.mixed_conditions == {}
    api.write_summary_page(collected, court.runs.parent / "page.html")
    assert label in (court.runs.parent / "page.html").read_text(encoding="utf-8")
    assert label in " ".join(call(capsys, "run", "summary", court.runs).out.split())
    found = api.compare_runs(*(court.runs / name for name in court.list_runs()))
    assert (found.is_comparable, found.is_provisional) == (True, True)
    assert label in found.label


def test_runs_of_one_root_seed_have_no_label(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    contract = court.write_contract()
    assert court.start_json(capsys, contract, "--agent", "reference", "--agent", "noop")[0] == 0
    summary = api.summarize_runs(court.runs).summary
    assert "provisional" not in summary.aggregate.label
    assert ("deviations", "none in 2 run(s)") in summary.remarks
    assert "root seeds" not in dict(summary.remarks)


def test_the_report_has_failing_tests_recent_diffs_and_a_labeled_reading(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    run = try_script(court, capsys, (shell("sed -i s/41/43/ answer.sh"), finish()))
    assert run.status == "failure"
    found = json.loads(RunPaths(run.directory).report.read_bytes())["attribution"]
    failing = {check["check"]: check["tests"] for check in found["failing_tests"]}
    assert failing == {"cases": ["cases::answer"]}
    (diff,) = found["recent_diffs"]
    assert (diff["path"], diff["is_cut"]) == ("answer.sh", False)
    assert "-echo 41" in diff["diff"]
    assert "+echo 43" in diff["diff"]
    assert run.events[diff["seq"]].type == "workspace-mutation"
    assert found["causal_summary"]["label"] == "interpretation"
    assert found["causal_summary"]["sentences"]
