"""Claims in a store: each run once, in plan order, within its envelopes, whoever dies in between."""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial._core.errors import RepoTrialError
from repotrial.fleet import FleetSite, Pulled
from repotrial.store import Store, open_store
from support.fleets import COST, Attempts, build_plan, build_worker, examine


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file:{tmp_path / 'store'}", {}, may_make=True)


def work(store: Store, place: Path, *, workers: int = 1, slots: int = 1, seconds: float = 0.0) -> Attempts:
    attempts = Attempts(place, seconds=seconds)
    built = [build_worker(store, attempts, place, slots=slots, idle_seconds=1.0)[0] for _ in range(workers)]
    threads = [threading.Thread(target=lambda each=each: [*each.work()]) for each in built]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return attempts


def begun(attempts: Attempts) -> list[str]:
    lines = [json.loads(line) for line in attempts.journal.read_text().splitlines()]
    return [line["run"] for line in lines if line["word"] == "begin"]


def test_one_worker_claims_in_the_order_of_the_plan(store: Store, tmp_path: Path) -> None:
    plan = build_plan(5)
    FleetSite.create(store, plan)
    attempts = work(store, tmp_path)
    assert begun(attempts) == [run.run_id for run in plan.runs]
    status = FleetSite.open(store).read_status()
    assert (status.planned, status.claimed, status.done, status.invalid) == (5, 0, 5, 0)
    assert status.is_over
    assert {line.word for line in FleetSite.open(store).read_log()} >= {"claimed", "counted", "over"}


def test_many_workers_conduct_each_run_once(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(24))
    attempts = work(store, tmp_path, workers=4, slots=2)
    assert len(begun(attempts)) == 24
    assert examine(store, attempts.journal).is_sound


def test_a_dead_workers_run_is_taken_over_after_a_whole_ttl_and_its_cost_is_kept(
    store: Store, tmp_path: Path
) -> None:
    plan = build_plan(2, ttl_seconds=0.4)
    FleetSite.create(store, plan)
    folder = f"run/000000-{plan.runs[0].run_id}"
    store.create(f"{folder}/claim.0001", b"a worker that died")
    attempts = work(store, tmp_path)
    lines = [json.loads(line) for line in attempts.journal.read_text().splitlines()]
    assert [(line["run"], line["epoch"]) for line in lines if line["word"] == "begin"] == [
        (plan.runs[1].run_id, 1),
        (plan.runs[0].run_id, 2),
    ]
    status = FleetSite.open(store).read_status()
    assert (status.done, status.attempts) == (2, 3)
    assert status.reserved_usd == Decimal(2)  # nothing is known of it, so all that it might have spent


def test_a_claim_that_is_renewed_is_left_alone(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(1, ttl_seconds=3.0))
    attempts = Attempts(tmp_path, seconds=3.6)
    first, _ = build_worker(store, attempts, tmp_path)
    second, _ = build_worker(store, attempts, tmp_path, idle_seconds=5.0)
    threads = [threading.Thread(target=lambda each=each: [*each.work()]) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun(attempts)) == 1


def test_a_worker_that_is_superseded_ends_its_run_and_never_counts(store: Store, tmp_path: Path) -> None:
    plan = build_plan(1, ttl_seconds=0.8)
    FleetSite.create(store, plan)
    folder = f"run/000000-{plan.runs[0].run_id}"
    attempts = Attempts(tmp_path, seconds=30)
    worker, stopper = build_worker(store, attempts, tmp_path)
    words = []
    for event in worker.work():
        words.append(event.word)
        if event.word == "claimed" and event.epoch == 1:
            store.create(f"{folder}/claim.0002", b"a successor")
        if event.word == "superseded":
            stopper.stop()
    assert "counted" not in words
    assert store.find(f"{folder}/done") is None
    board = FleetSite.open(store).look()
    assert board.states[0].attempts[1].word == "superseded"
    assert board.states[0].attempts[1].cost_micro_usd == COST // 2


def test_only_the_first_done_marker_counts(store: Store, tmp_path: Path) -> None:
    plan = build_plan(1)
    FleetSite.create(store, plan)
    folder = f"run/000000-{plan.runs[0].run_id}"
    attempts = Attempts(tmp_path, seconds=0.3)
    worker, _ = build_worker(store, attempts, tmp_path)
    words = []
    for event in worker.work():
        words.append(event.word)
        if event.word == "claimed":
            store.create(f"{folder}/done", b'{"epoch":7,"record":"x","digest":"y","seal_digest":"z"}')
    assert "counted" not in words
    assert json.loads(store.read(f"{folder}/done"))["epoch"] == 7


def test_a_record_without_its_marker_is_adopted_and_nothing_is_paid_twice(
    store: Store, tmp_path: Path
) -> None:
    plan = build_plan(1, ttl_seconds=0.3)
    FleetSite.create(store, plan)
    work(store, tmp_path / "first")
    folder = f"run/000000-{plan.runs[0].run_id}"
    (tmp_path / "store" / folder / "done").unlink()  # as if the worker had died just before
    attempts = work(store, tmp_path / "second")
    assert not attempts.journal.exists()
    assert json.loads(store.read(f"{folder}/done"))["epoch"] == 1
    assert [each.is_counted for each in _pull(store, tmp_path / "runs")] == [True]


def _pull(store: Store, target: Path) -> list[Pulled]:
    return [*FleetSite.open(store).pull(target)]


@pytest.mark.parametrize(
    ("total", "expected"), [("2.00", 1), ("3.24", 1), ("3.25", 2), ("9.99", 7), ("0.5", 0)]
)
def test_an_envelope_is_never_overdrawn_by_a_cent(
    store: Store, tmp_path: Path, total: str, expected: int
) -> None:
    """An attempt reserves 2.00 and costs 1.25: the next may begin while 2.00 still fit."""
    FleetSite.create(store, build_plan(12, total_usd=total))
    attempts = work(store, tmp_path, workers=3)
    found = examine(store, attempts.journal) if attempts.journal.exists() else None
    status = FleetSite.open(store).read_status()
    assert found is None or found.overdrawn_micro_usd == 0
    assert status.done == expected
    assert status.spent_usd == expected * Decimal("1.25")
    assert status.reserved_usd == 0


def test_the_envelope_of_a_task_holds_as_well(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(6, task_usd="4.50"))
    work(store, tmp_path, workers=2)
    assert FleetSite.open(store).read_status().done == 3


def test_a_stop_ends_workers_and_what_they_conduct(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(3, ttl_seconds=0.8))
    worker, _ = build_worker(store, Attempts(tmp_path, seconds=30), tmp_path)
    for event in worker.work():
        if event.word == "claimed":
            assert FleetSite.open(store).stop()
    status = FleetSite.open(store).read_status()
    assert (status.done, status.claimed, status.is_stopped) == (0, 0, True)
    assert not FleetSite.open(store).stop()


def test_a_worker_that_is_told_to_end_leaves_its_run_open(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(1))
    worker, stopper = build_worker(store, Attempts(tmp_path, seconds=30), tmp_path)
    for event in worker.work():
        if event.word == "claimed":
            stopper.stop()
    attempts = work(store, tmp_path / "next")
    assert begun(attempts) == [build_plan(1).runs[0].run_id]
    assert FleetSite.open(store).read_status().done == 1


def test_an_idle_worker_ends(store: Store, tmp_path: Path) -> None:
    plan = build_plan(1, ttl_seconds=60)
    FleetSite.create(store, plan)
    store.create(f"run/000000-{plan.runs[0].run_id}/claim.0001", b"another's")
    worker, _ = build_worker(store, Attempts(tmp_path), tmp_path, idle_seconds=0.2)
    assert [event.word for event in worker.work()] == ["waiting", "over"]


def test_a_store_in_use_by_other_runs_is_refused(store: Store) -> None:
    FleetSite.create(store, build_plan(2))
    FleetSite.create(store, build_plan(2))  # the very same
    with pytest.raises(RepoTrialError, match="found another of 2 runs") as caught:
        FleetSite.create(store, build_plan(3))
    assert caught.value.code == "store-in-use"


def test_a_plan_of_another_version_is_one_clear_line(store: Store) -> None:
    store.replace("plan/plan.json", b'{"schema": "repotrial/fleet-plan@9"}')
    with pytest.raises(RepoTrialError, match="expected a plan, found") as caught:
        FleetSite.open(store)
    assert caught.value.code == "fleet-plan"


def test_a_machine_with_other_conditions_is_refused_by_name() -> None:
    plan = build_plan(1)
    plan.verify_conditions({})
    with pytest.raises(RepoTrialError, match="release: expected nothing as in the plan, found 9"):
        plan.verify_conditions({"release": "9"})


def test_a_pulled_record_that_was_changed_in_the_store_is_refused(store: Store, tmp_path: Path) -> None:
    FleetSite.create(store, build_plan(1))
    work(store, tmp_path)
    board = FleetSite.open(store).look()
    record = board.states[0].attempts[1].record
    assert record is not None
    store.replace(record, b"something else")
    with pytest.raises(RepoTrialError, match="expected sha256:") as caught:
        _pull(store, tmp_path / "runs")
    assert caught.value.code == "store-digest"
