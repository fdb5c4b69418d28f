from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repotrial._core.absence import Unknown
from repotrial.retrieval import Outcome
from repotrial.retrieval._outcomes import load_outcomes
from support.retrieval_studies import TrialPlan, write_runs

RESULT: dict[str, Any] = {
    "task_name": "sgonly_alpha",
    "agent_info": {"name": "agent", "version": "2.1", "model_info": {"name": "large"}},
    "agent_result": {"n_output_tokens": 50, "cost_usd": 0.25},
    "verifier_result": {"rewards": {"reward": 0.5}},
    "agent_execution": {"started_at": "2026-03-01T12:00:10", "finished_at": "2026-03-01T12:01:10.5"},
}


def write(root: Path, place: str, result: Any, metrics: Any = None) -> Path:
    trial = root / "run" / place
    trial.mkdir(parents=True)
    (trial / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    if metrics is not None:
        (trial / "task_metrics.json").write_text(json.dumps(metrics))
    return root / "run"


def test_both_layouts_are_walked(tmp_path: Path) -> None:
    write(tmp_path, "baseline/2026-03-01__12-00-00/alpha__AbCdEf1", RESULT)
    run = write(tmp_path, "mcp/ccb_fix_alpha_mcp-remote/sgonly_alpha__Mcp0001", RESULT)
    found = load_outcomes(run)
    assert [(item.config_name, item.batch_timestamp, item.trial_name) for item in found] == [
        ("baseline", "2026-03-01__12-00-00", "alpha__AbCdEf1"),
        ("mcp", "", "sgonly_alpha__Mcp0001"),
    ]
    assert found[0].stated_name == "sgonly_alpha"
    assert found[0].reward == 0.5
    assert found[0].wall_clock_seconds == 60.5
    assert (found[0].model, found[0].harness) == ("large", "agent 2.1")


def test_metrics_of_the_task_come_before_the_result(tmp_path: Path) -> None:
    metrics = {"cost_usd": 1.5, "output_tokens": 700, "wall_clock_seconds": 9999, "reward": 0}
    run = write(tmp_path, "baseline/2026-03-01__12-00-00/alpha__A", RESULT, metrics)
    (found,) = load_outcomes(run)
    assert (found.cost_usd, found.output_tokens) == (1.5, 700)
    assert found.reward == 0.5, "the verifier's word, not a copy of it"
    assert found.wall_clock_seconds == 60.5, "the agent's work, not the whole trial"


def test_without_them_the_result_is_asked(tmp_path: Path) -> None:
    metrics = {"cost_usd": None, "agent_execution_seconds": 33}
    result = RESULT | {"agent_execution": {"started_at": "2026-03-01T12:00:10"}}
    (found,) = load_outcomes(write(tmp_path, "baseline/2026-03-01__12-00-00/alpha__A", result, metrics))
    assert (found.cost_usd, found.output_tokens, found.wall_clock_seconds) == (0.25, 50, 33)


def test_what_is_not_stated_is_not_known_and_never_zero(tmp_path: Path) -> None:
    info = {"name": "agent", "version": "unknown", "model_info": None}
    result = {"task_name": "alpha", "verifier_result": None, "agent_info": info}
    (found,) = load_outcomes(write(tmp_path, "baseline/2026-03-01__12-00-00/alpha__A", result))
    for name in ("reward", "cost_usd", "wall_clock_seconds", "output_tokens", "model", "harness"):
        assert isinstance(getattr(found, name), Unknown), name


def test_a_result_that_is_no_json_still_is_a_trial(tmp_path: Path) -> None:
    (found,) = load_outcomes(write(tmp_path, "baseline/2026-03-01__12-00-00/alpha__A", "{bad"))
    assert found.stated_name == "alpha"
    assert isinstance(found.reward, Unknown)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(RESULT)), _ANYTHING)
def test_no_value_in_any_field_stops_the_reading(tmp_path: Path, field: str, value: Any) -> None:
    trial = tmp_path / "run" / "baseline" / "2026-03-01__12-00-00" / "alpha__A"
    trial.mkdir(parents=True, exist_ok=True)
    (trial / "result.json").write_text(json.dumps(RESULT | {field: value}))
    (trial / "task_metrics.json").write_text(json.dumps({"cost_usd": value, "output_tokens": value}))
    (found,) = load_outcomes(tmp_path / "run")
    assert isinstance(found, Outcome)


def test_plans_of_tests_are_read_back(tmp_path: Path) -> None:
    run = write_runs(tmp_path, [TrialPlan(config="baseline", task="t", reward=0.25, seconds=90)])
    (found,) = load_outcomes(run)
    assert (found.reward, found.wall_clock_seconds, found.cost_usd) == (0.25, 90, 0.5)
