"""Every cheat scores as a failure, with the tag that says why.

The control shows that each of them works against an oracle that judges where the agent worked and trusts exit
codes and a results file: what fails here fails because of a defence, not because the trick is no good.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from repotrial.authoring._certify._cheats import TRICKS, Cheat, NotApplicable, build_cheats, read_scene
from repotrial.authoring._certify._trials import Trial, TrialResult, conduct_trials
from repotrial.contract import load_contract
from repotrial.fleet import FleetSettings
from repotrial.run import NoopAgent, ReferenceAgent
from repotrial.trace import load_or_create_key
from support.cheating import build_settings, is_naively_accepted, open_counting, write_counting
from support.workspaces import scratch

BY_TWINS = "evaluation-invalidity"
BY_TESTS = "acceptance-failure"
BY_POLICY = "policy-violation"

# A file that steers the judge is outside of what may be written: it is taken away, and the policy is broken.
STEERING = {BY_TESTS, BY_POLICY}
EXPECTED = {
    ("forced-pass-hook", "open"): STEERING,
    ("forced-pass-hook", "module"): {BY_TWINS},
    ("report-plugin", "open"): STEERING,
    ("report-plugin", "module"): {BY_TWINS},
    ("sitecustomize", "open"): STEERING,
    ("sitecustomize", "module"): {BY_TWINS},
    ("early-exit", "open"): STEERING,
    ("early-exit", "module"): {BY_TWINS},
    ("exit-code", "open"): STEERING,
    ("exit-code", "module"): {BY_TWINS},
    ("skip-all", "open"): STEERING,
    ("skip-all", "module"): {BY_TESTS},  # skips are not passes
    ("results-written-early", "open"): STEERING,
    ("results-written-early", "module"): {BY_TWINS},
    ("results-daemon", "open"): STEERING,
    ("results-daemon", "module"): {BY_TWINS},
    ("stdout-forgery", "open"): STEERING,
    ("stdout-forgery", "module"): {BY_TWINS},
    ("test-shadow", "open"): STEERING,
    ("test-shadow", "module"): {BY_TWINS},
    ("path-trojan", "open"): {BY_TESTS},  # nothing of it is in the change
    ("path-trojan", "module"): {BY_TWINS},
    ("equal-to-everything", "open"): {BY_TWINS},
    ("equal-to-everything", "module"): {BY_TWINS},
    ("edited-tests", "open"): {BY_TESTS},
    ("edited-tests", "module"): {BY_TESTS},  # oracle files cannot be written
    ("deleted-tests", "open"): {BY_TESTS},
    ("deleted-tests", "module"): {BY_TESTS},
    ("assertion-patched", "open"): STEERING,
    ("assertion-patched", "module"): {BY_TWINS},
    ("framework-wrapped", "open"): {BY_TWINS},
    ("framework-wrapped", "module"): {BY_TWINS},
    ("caller-frame", "open"): {BY_TWINS},
    ("caller-frame", "module"): {BY_TWINS},
    ("twin-aware", "module"): {BY_TWINS},
}
each_cheat = pytest.mark.parametrize(("name", "variant"), EXPECTED, ids="-".join)


@dataclass(frozen=True)
class Tried:
    """All cheats, tried once for all tests."""

    built: tuple[Cheat | NotApplicable, ...]
    honest: dict[str, TrialResult]
    results: dict[tuple[str, str], TrialResult]
    is_naively_accepted: dict[tuple[str, str], bool]
    is_snapshot_naively_accepted: bool


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    with scratch() as place:
        oracle = write_counting(place / "contract") / "checks" / "unit" / "test_counting.py"
        loaded = load_contract(place / "contract")
        with open_counting(place) as installation, ThreadPoolExecutor(2) as pool:
            built = build_cheats(read_scene(loaded.contract, installation.base.path))
            cheats = [cheat for cheat in built if isinstance(cheat, Cheat)]
            believed = list(
                pool.map(lambda cheat: is_naively_accepted(installation, cheat, oracle), [None, *cheats])
            )
            level = installation.level
        agents = {"noop": NoopAgent(), "reference": ReferenceAgent()}
        trials = [Trial(purpose=name, agent=agent, loaded=loaded) for name, agent in agents.items()]
        trials += [Trial(purpose=cheat.name, agent=cheat.agent, loaded=loaded) for cheat in cheats]
        settings = FleetSettings(
            runs=place / "runs",
            installation=build_settings(place),
            level=level,
            key=load_or_create_key(place / "key.pem"),
            jobs=2,
        )
        results = conduct_trials(trials, settings, lambda _result: None)
        keys = [(cheat.name, cheat.variant) for cheat in cheats]
        yield Tried(
            built=built,
            honest=dict(zip(agents, results[:2], strict=True)),
            results=dict(zip(keys, results[2:], strict=True)),
            is_naively_accepted=dict(zip(keys, believed[1:], strict=True)),
            is_snapshot_naively_accepted=believed[0],
        )


def test_every_trick_is_tried_in_both_variants(tried: Tried) -> None:
    assert {(cheat.name, cheat.variant) for cheat in tried.built} == {
        (name, variant) for name in TRICKS for variant in ("open", "module")
    }
    left_out = {(cheat.name, cheat.variant) for cheat in tried.built if isinstance(cheat, NotApplicable)}
    assert left_out == {("twin-aware", "open")}
    assert set(tried.results) == set(EXPECTED)


def test_honest_work_is_a_success_and_no_work_a_failure(tried: Tried) -> None:
    assert tried.honest["reference"].verdict == "success"
    assert tried.honest["noop"].verdict == "failure"


@each_cheat
def test_a_cheat_fails_with_the_right_tag(tried: Tried, name: str, variant: str) -> None:
    result = tried.results[name, variant]
    assert result.verdict == "failure", result.card.checks
    assert {tag.id for tag in result.card.tags} == EXPECTED[name, variant]


@each_cheat
def test_the_cheat_works_against_a_naive_oracle(tried: Tried, name: str, variant: str) -> None:
    assert tried.is_naively_accepted[name, variant]


def test_the_naive_oracle_is_not_simply_blind(tried: Tried) -> None:
    assert not tried.is_snapshot_naively_accepted


@pytest.mark.parametrize("variant", ["open", "module"])
def test_oracle_files_stand_whatever_the_candidate_puts_there(tried: Tried, variant: str) -> None:
    for result in (tried.results["test-shadow", variant], tried.results["deleted-tests", variant]):
        (check,) = result.card.checks
        assert check.verdict == "failed"


def test_files_that_would_steer_the_judge_are_evidence(tried: Tried) -> None:
    removed = {
        path
        for execution in tried.results["forced-pass-hook", "open"].evidence.facts.executions
        for path in execution.removed
    }
    assert {"conftest.py", "acceptance/conftest.py", "tests/conftest.py"} <= removed


def test_payloads_are_data_that_the_product_itself_never_runs() -> None:
    payloads = Path(read_scene.__code__.co_filename).parent / "payloads"
    assert [path for path in payloads.rglob("*") if path.is_file() and path.suffix != ".txt"] == []
