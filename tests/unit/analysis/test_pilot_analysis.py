"""A conducted pilot, analyzed from run directories: every planned trial counts, none is taken on trust."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial.analysis import Analysis, ConductedPilot, analyze_pilot
from repotrial.cost import load_price_book
from support.miniature_pilots import REQUIRING, conduct_pilot
from support.score_runs import PATCH, build_contract, write_run


def _analyze(pilot: ConductedPilot) -> Analysis:
    return analyze_pilot(pilot, load_price_book(None))


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ConductedPilot, Analysis]:
    root = tmp_path_factory.mktemp("pilot")
    words = {
        "a": ["s"] * 9 + ["f", "l", "-"],
        "b": ["f"] * 9 + ["s", "e", "-"],
        "noop": ["f"] * 9 + ["b", "s", "e"],
    }
    pilot = conduct_pilot(root, words)
    return root, pilot, _analyze(pilot)


def test_every_planned_trial_is_in_the_rate_and_categories_stay_apart(analyzed: Any) -> None:
    _, _, found = analyzed
    arms = {arm.name: arm for arm in found.arms}
    assert (arms["a"].trials, arms["a"].successes, arms["a"].indeterminate) == (12, 9, 1)
    assert arms["a"].rate.estimate == pytest.approx(9 / 12)
    assert (arms["b"].errors, arms["b"].failures, arms["b"].indeterminate) == (1, 9, 1)
    assert arms["noop"].role == "baseline"
    assert found.is_witnessed


def test_the_decision_rule_comes_first_and_decides_by_interval_and_cost(
    analyzed: Any, tmp_path: Path
) -> None:
    _, _, found = analyzed
    assert found.decision.startswith("adopt a: ahead of b by +")
    text = api.report_analysis(found)["analysis.md"]
    assert text.startswith("**Decision**: adopt a")
    assert max(map(len, text.splitlines())) <= 100
    even = conduct_pilot(tmp_path / "even", {"a": ["s", "f"] * 4, "b": ["f", "s"] * 4})
    assert _analyze(even).decision.startswith("nothing is decided: the difference of a to b is")
    worse = conduct_pilot(tmp_path / "worse", {"a": ["f"] * 12, "b": ["s"] * 12})
    assert _analyze(worse).decision.startswith("do not adopt a")


def test_a_pair_that_was_not_registered_is_exploratory_and_enters_no_family(tmp_path: Path) -> None:
    found = _analyze(conduct_pilot(tmp_path, {"a": ["s"] * 8, "b": ["f"] * 8, "c": ["s", "f"] * 4}))
    families = {one.name: one.family for one in found.contrasts}
    assert families == {"a-b": "primary", "a less c": "exploratory", "b less c": "exploratory"}
    for one in found.contrasts[1:]:
        assert isinstance(one.p, float)
        assert isinstance(one.p_holm, NotComputable)
        assert not one.is_told_apart
        assert one.sentence.startswith("Exploratory")
    assert found.contrasts[0].p == found.contrasts[0].p_holm


def test_a_contrast_that_could_stop_has_a_sequential_p_and_an_unbiased_estimate(tmp_path: Path) -> None:
    words = {"a": ["s"] * 9 + ["f"] * 6, "b": ["f"] * 13 + ["s"] * 2}
    plain = _analyze(conduct_pilot(tmp_path / "plain", words)).contrasts[0]
    looked = _analyze(
        conduct_pilot(tmp_path / "looked", words, contrasts=(("a-b", "a", "b", "primary", (0.5, 1.0)),))
    ).contrasts[0]
    assert isinstance(plain.p, float)
    assert isinstance(looked.p, float)
    assert looked.p > plain.p
    assert not isinstance(looked.after_looks, NotComputable)
    assert isinstance(looked.difference, float)
    assert isinstance(looked.after_looks.estimate, float)
    assert looked.after_looks.estimate < looked.difference


def test_baselines_stand_outside_of_the_family(analyzed: Any) -> None:
    _, _, found = analyzed
    assert [(one.first, one.second, one.family) for one in found.contrasts] == [("a", "b", "primary")]
    assert all("noop" not in group.arms for group in found.tied)


def test_indeterminate_trials_have_bounds_and_contrasts_a_worst_case(analyzed: Any) -> None:
    _, _, found = analyzed
    record = {one.arm: one for one in found.pilot.arms}
    assert (record["a"].worst_rate, record["a"].best_rate) == pytest.approx((9 / 12, 10 / 12))
    (bounds,) = found.pilot.contrasts
    assert bounds.worst == pytest.approx(9 / 12 - 2 / 12)
    assert bounds.best == pytest.approx(10 / 12 - 1 / 12)
    assert isinstance(bounds.tipping_point, NotComputable)


def test_a_success_with_an_unanswered_flag_stays_in_the_rate_and_falls_in_the_worst_case(
    tmp_path: Path,
) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 3, "b": ["f"] * 3})
    name = tmp_path / "runs" / "a-1-0"
    shutil.rmtree(name)
    write_run(name, patch=REQUIRING)
    found = _analyze(pilot)
    assert not isinstance(found.pilot, NotComputable)
    assert found.arms[0].rate.estimate == 1
    assert (found.pilot.arms[0].doubtful, found.pilot.arms[0].worst_rate) == pytest.approx((1, 2 / 3))


def test_a_result_that_hangs_on_one_missing_trial_says_so(tmp_path: Path) -> None:
    found = _analyze(conduct_pilot(tmp_path, {"a": ["s"] * 6 + ["f"] * 6, "b": ["f"] * 8 + ["-"] * 4}))
    (bounds,) = found.pilot.contrasts  # type: ignore[union-attr]
    assert found.contrasts[0].is_told_apart
    assert isinstance(bounds.tipping_point, int)
    assert 1 <= bounds.tipping_point <= 4


def test_ends_gates_and_the_curve_that_ends_at_the_rate(analyzed: Any) -> None:
    _, _, found = analyzed
    record = {one.arm: one for one in found.pilot.arms}
    assert record["a"].endings == {
        "finished-without-success": 1,
        "indeterminate": 1,
        "limit": 1,
        "success": 9,
    }
    assert sum(record["b"].failed_gates.values()) >= 10
    assert record["a"].rubric.correctness == pytest.approx(9 / 11)
    assert record["a"].rubric.efficiency == pytest.approx(10 / 11)
    assert record["a"].rubric.score_low <= record["a"].rubric.score <= record["a"].rubric.score_high
    assert isinstance(record["a"].rubric.coherence, NotComputable)
    # One of twelve is censored before anything; the curve ends at the rate among the others.
    curve = record["a"].time_to_success
    assert (curve.final, curve.n_censored) == pytest.approx((9 / 11, 1))
    assert [point.at for point in curve.points] == [float(second) for second in range(1, 10)]


def test_a_change_outside_of_the_declared_modules_is_churn_and_less_coherent(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 3, "b": ["f"] * 3})
    contract = build_contract()
    clarify = msgspec.convert({"modules": ["src"]}, type(contract.clarify))
    for place, patch in ((0, PATCH), (1, REQUIRING)):
        name = tmp_path / "runs" / f"a-{place}-0"
        shutil.rmtree(name)
        write_run(name, contract=msgspec.structs.replace(contract, clarify=clarify), patch=patch)
    found = _analyze(pilot)
    assert not isinstance(found.pilot, NotComputable)
    rubric = found.pilot.arms[0].rubric
    assert not isinstance(rubric, NotComputable)
    assert rubric.coherence == pytest.approx(1 / 2)
    assert rubric.patch_validity == pytest.approx(2 / 3)


def test_what_doing_nothing_satisfies_and_what_fails_anyway(analyzed: Any) -> None:
    _, _, found = analyzed
    assert found.pilot.already_satisfied == ("t10",)
    assert found.pilot.already_failing == ("t09", "t11")


def test_strata_with_few_tasks_carry_a_caution(analyzed: Any) -> None:
    _, _, found = analyzed
    assert {(one.stratum, one.arm) for one in found.pilot.strata} == {
        (stratum, arm) for stratum in ("python", "rust") for arm in ("a", "b", "noop")
    }
    assert all(one.caution for one in found.pilot.strata)


def test_flow_deviations_and_scope_are_in_it(analyzed: Any) -> None:
    _, _, found = analyzed
    flow = found.pilot.flow
    assert (flow["contracts planned"], flow["contracts removed"], flow["trials planned"]) == (13, 1, 36)
    assert flow["trials with an outcome"] + flow["indeterminate"] == flow["trials planned"]
    assert found.pilot.deviations == ("another seed",)


def test_figures_name_their_artefacts_and_another_machine_computes_the_same(
    analyzed: Any, tmp_path: Path
) -> None:
    root, pilot, found = analyzed
    names = {one.name for one in found.artefacts}
    assert {"plan", "runs of a", "runs of b", "runs of noop"} == names
    assert all({*arm.computed_from} <= names for arm in found.arms)
    assert all({*one.computed_from} <= names for one in found.contrasts)
    copied = tmp_path / "copy"
    shutil.copytree(root, copied)
    assert _analyze(msgspec.structs.replace(pilot, directory=copied)) == found


def test_another_seal_changes_the_digest_of_the_arm(analyzed: Any, tmp_path: Path) -> None:
    root, pilot, found = analyzed
    copied = tmp_path / "copy"
    shutil.copytree(root, copied)
    (copied / "runs" / "a-0-0" / "seal.json").write_text("another")
    again = _analyze(msgspec.structs.replace(pilot, directory=copied))
    old, new = ({one.name: one.digest for one in each.artefacts} for each in (found, again))
    assert {name for name in old if old[name] != new[name]} == {"runs of a"}


def test_the_document_of_a_pilot_keeps_to_the_published_schema(analyzed: Any) -> None:
    _, _, found = analyzed
    document = msgspec.json.decode(msgspec.json.encode(found))
    jsonschema.Draft202012Validator(api.build_schema("analysis")).validate(document)
    assert msgspec.convert(document, Analysis) == found


def test_a_pilot_without_any_run_has_rates_of_0_with_bounds_and_no_rubric(tmp_path: Path) -> None:
    found = _analyze(conduct_pilot(tmp_path, {"a": ["-"] * 4, "b": ["-"] * 4}))
    assert not isinstance(found.pilot, NotComputable)
    for arm, record in zip(found.arms, found.pilot.arms, strict=True):
        assert (arm.rate.estimate, arm.indeterminate) == (0, 4)
        assert (record.worst_rate, record.best_rate) == (0, 1)
        assert isinstance(record.rubric, NotComputable)
        assert isinstance(arm.scorable_rate, NotComputable)
