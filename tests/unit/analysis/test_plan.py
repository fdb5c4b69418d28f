"""Plans: what a pilot.toml must keep to, strata, the random order, and the frozen choice of repeats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.errors import ContractError
from repotrial.analysis import LoadedPlan, TaskFacts, build_plan, check_pilot
from support.contracts import DIGEST
from support.pilots import build_machine, edit_pilot, write_pilot


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> LoadedPlan:
    place = tmp_path_factory.mktemp("plan")
    directory = write_pilot(place)
    api.plan_pilot(directory, build_machine(place))
    return LoadedPlan.load(directory)


def test_the_same_pilot_has_the_same_plan(planned: LoadedPlan, tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    api.plan_pilot(directory, build_machine(tmp_path))
    again = LoadedPlan.load(directory)
    assert [row.task for row in again.rows] == [row.task for row in planned.rows]
    assert [row.arm for row in again.rows] == [row.arm for row in planned.rows]


def test_every_arm_has_the_same_runs_in_every_stage(planned: LoadedPlan) -> None:
    assert planned.find_imbalance() == []
    runs = Counter((row.stage, row.arm) for row in planned.rows)
    assert {stage: {runs[stage, arm] for arm in planned.plan.arms} for stage in (1, 2, 3)} == {
        1: {2},
        2: {8},
        3: {14},
    }


def test_runs_are_blocked_by_task_in_one_random_order(planned: LoadedPlan) -> None:
    order = [task.id for task in planned.plan.tasks]
    assert order != sorted(order)
    for stage in (1, 2, 3):
        blocks = [row.block for row in planned.rows if row.stage == stage]
        assert blocks == sorted(blocks)
        assert all(order[row.block] == row.task for row in planned.rows)


def test_stage_1_takes_the_first_of_each_stratum_and_at_most_a_quarter(planned: LoadedPlan) -> None:
    chosen = [task for task in planned.plan.tasks if task.stage_1]
    assert len(chosen) == 2
    first: dict[str, str] = {}
    for task in planned.plan.tasks:
        first.setdefault(task.stratum, task.id)
    assert {task.id for task in chosen} == set(first.values())


def test_small_cells_join_the_smallest_of_the_same_first_factor(tmp_path: Path) -> None:
    pilot, _ = check_pilot((write_pilot(tmp_path) / "pilot.toml").read_bytes())
    assert pilot is not None
    cells = [("py", "fix")] * 5 + [("py", "feature")] * 2 + [("js", "fix")] * 4 + [("c", "fix")]
    tasks = [
        TaskFacts(id=f"t{place}", version_id=DIGEST, ecosystem=cell[0], kind=cell[1], complexity=None)
        for place, cell in enumerate(cells)
    ]
    plan = build_plan(pilot, (DIGEST, DIGEST), tasks, {}, lambda *cell: str(cell)).plan
    strata = {task.cell: task.stratum for task in plan.tasks}
    assert strata["py / feature"] == strata["py / fix"] == "py / feature + py / fix"
    assert strata["c / fix"] == strata["js / fix"] == "c / fix + js / fix"


def test_all_problems_are_listed_at_once_each_with_its_fix(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path, stage_2="0", run_usd="5.00")
    with pytest.raises(ContractError) as caught:
        api.plan_pilot(directory, build_machine(tmp_path))
    assert "stages.stage_2" in caught.value.message
    edit_pilot(directory, stage_2="1", run_usd="-5.00", against='"weka"', icc="1.5", sample_share="2")
    file = directory / "pilot.toml"
    relaxed = '\n[[relaxations]]\nfield = "isolation"\nvalue = 1\njustification = "faster"\n'
    file.write_text(file.read_text("utf-8") + relaxed, "utf-8")
    with pytest.raises(ContractError) as caught:
        api.plan_pilot(directory, build_machine(tmp_path))
    text = caught.value.message
    for words in (
        "envelopes.run_usd: expected more than 0, found -5.00",
        "expected an arm of this pilot, found 'weka' (did you mean 'weak'?)",
        "power.icc",
        "review.sample_share",
        "found 'isolation' (isolation, secrets and network are never relaxed",
    ):
        assert words in text
    assert not (directory / "plan").exists()


@pytest.mark.parametrize("part", ["asset", "boundary", "threat", "mitigation", "cost_impact", "harm"])
def test_a_risk_without_one_of_its_parts_is_refused(tmp_path: Path, part: str) -> None:
    text = (write_pilot(tmp_path) / "pilot.toml").read_text("utf-8")
    lines = text.splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(f"{part} ="))
    pilot, problems = check_pilot("".join([*lines[:place], *lines[place + 1 :]]).encode())
    assert pilot is None
    assert [problem.field for problem in problems] == [f"risks[0].{part}"]


def test_a_new_pilot_has_risks_at_every_trust_boundary(tmp_path: Path) -> None:
    pilot, _ = check_pilot((write_pilot(tmp_path) / "pilot.toml").read_bytes())
    assert pilot is not None
    said = " ".join(f"{risk.asset} {risk.boundary}" for risk in pilot.risks)
    for word in ("agent", "sandbox", "registries", "CI", "internal code"):
        assert word in said, word


def test_an_efficacy_rule_names_registered_assumptions_that_it_rests_on(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    text = (directory / "pilot.toml").read_text("utf-8").replace("# contrast = ", "contrast = ", 1)
    _, problems = check_pilot(text.encode())
    assert problems == []
    for value, words in (('["luck"]', "found 'luck'"), ("[]", "expected what the rule rests on")):
        edited = text.replace('# assumptions = ["planning-values"]', f"assumptions = {value}")
        _, problems = check_pilot(edited.encode())
        assert [words in problem.message for problem in problems] == [True]


def test_an_assumption_without_its_refutation_is_refused(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    file = directory / "pilot.toml"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith("refuted_by"))
    file.write_text("".join([*lines[:place], *lines[place + 1 :]]), "utf-8")
    with pytest.raises(ContractError, match=r"assumptions\[0\]\.refuted_by"):
        api.plan_pilot(directory, build_machine(tmp_path))


def test_a_missing_certificate_and_a_missing_script_are_named(
    tmp_path: Path,
) -> None:
    directory = write_pilot(tmp_path)
    (tmp_path / "example" / "agents" / "weak" / "upper.sh").unlink()
    with pytest.raises(ContractError, match=r"weak/upper\.sh: expected a file"):
        api.plan_pilot(directory, build_machine(tmp_path))
    (tmp_path / "example" / "contracts" / "upper" / "contract.certificate.json").unlink()
    with pytest.raises(ContractError, match="expected a full certificate, found none"):
        api.plan_pilot(directory, build_machine(tmp_path))


def test_an_effect_that_endless_repeats_could_not_show_is_refused(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path, smallest_effect="0.20")
    with pytest.raises(ContractError, match=r"8 tasks never show less than 0.390.*35 tasks would do"):
        api.plan_pilot(directory, build_machine(tmp_path))
    found = api.plan_pilot(directory, build_machine(tmp_path), what_if={"tasks": 40, "repeats": 3})
    assert isinstance(found, api.PowerAnalysis)
    assert found.refusal is None
    assert not (directory / "plan").exists()


def test_a_price_below_zero_is_named(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    (directory / "prices.csv").write_text(
        "action_type,unit,unit_price,notes\nexec:wall,second,-1,none\n", "utf-8"
    )
    file = directory / "pilot.toml"
    file.write_text(
        file.read_text("utf-8").replace('# prices = "prices.csv"', 'prices = "prices.csv"'), "utf-8"
    )
    with pytest.raises(ContractError, match=r"prices: .*-1"):
        api.plan_pilot(directory, build_machine(tmp_path))
