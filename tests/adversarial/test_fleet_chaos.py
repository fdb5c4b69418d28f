"""Workers that die, stores that fail, networks that are cut: nothing lost, nothing twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from repotrial._core.digest import Digest
from repotrial.fleet import FleetSite
from repotrial.store import Store, StoredObject, open_store
from support.exhaustive import IS_EXHAUSTIVE
from support.fleets import Attempts, build_plan, build_worker, examine
from support.stores import build_variables, make_bucket, open_faulty, open_s3
from support.waiting import wait_until

PROGRAM: Final = Path(__file__).parents[1] / "support" / "fleets.py"
TESTS: Final = Path(__file__).parents[1]
ROUNDS: Final = 50 if IS_EXHAUSTIVE else 1


class Site:
    """A store, how to reach it, and workers in processes of their own."""

    def __init__(self, place: Path, url: str, variables: dict[str, str]) -> None:
        self.place = place
        self.url = url
        self.store = open_store(url, variables, may_make=True)
        self.journal = place / "journal.jsonl"
        self.dead: list[tuple[int, float]] = []
        self._variables = variables
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(
        self, *, seconds: float = 0.3, slots: int = 1, variables: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        path = f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"
        worker = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.url, str(self.place), str(seconds), str(slots)],
            env={**os.environ, "PYTHONPATH": path, **(variables or self._variables)},
            stdout=subprocess.DEVNULL,
        )
        self._workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.dead.append((worker.pid, time.monotonic()))

    def await_begun(self, worker: subprocess.Popen[bytes]) -> None:
        def has_begun() -> bool:
            lines = self.journal.read_text().splitlines() if self.journal.exists() else []
            return any(json.loads(line)["pid"] == worker.pid for line in lines)

        assert wait_until(has_begun), "no run was begun"

    def finish(self) -> None:
        """Wait for all workers; one more for what they left."""
        for worker in self._workers:
            worker.wait(timeout=120)
        if not FleetSite.open(self.store).read_status().is_over:
            self.start(seconds=0.0).wait(timeout=120)

    def close(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with open_s3() as found:
        yield found


@contextlib.contextmanager
def open_site(kind: str, place: Path, endpoint: str) -> Iterator[Site]:
    if kind == "file":
        site = Site(place, f"file:{place / 'store'}", {})
    else:
        site = Site(place, make_bucket(endpoint), build_variables(endpoint))
    try:
        yield site
    finally:
        site.close()


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    kind: str, number: int, tmp_path: Path, endpoint: str
) -> None:
    chance = random.Random(f"{kind} {number}")
    with open_site(kind, tmp_path, endpoint) as site:
        FleetSite.create(site.store, build_plan(6, ttl_seconds=2.0, total_usd="40"))
        victim = site.start(slots=2)
        site.await_begun(victim)
        site.start()
        time.sleep(chance.uniform(0, 0.6))
        site.kill(victim)
        site.finish()
        found = examine(site.store, site.journal, site.dead)
        assert found.is_sound, found
        assert FleetSite.open(site.store).read_status().attempts >= 6


def test_a_store_that_answers_5xx_for_a_while_costs_only_time(tmp_path: Path, endpoint: str) -> None:
    with open_faulty(endpoint) as (address, faults):
        site = Site(tmp_path, make_bucket(endpoint), build_variables(address))
        FleetSite.create(site.store, build_plan(4, ttl_seconds=6.0))
        with contextlib.closing(site):
            site.await_begun(site.start())
            faults.failures = 12
            site.finish()
            found = examine(site.store, site.journal)
        assert found.is_sound, found
        assert faults.failures == 0


def test_a_slow_store_costs_only_time(tmp_path: Path, endpoint: str) -> None:
    with open_faulty(endpoint) as (address, faults):
        site = Site(tmp_path, make_bucket(endpoint), build_variables(address))
        FleetSite.create(site.store, build_plan(2, ttl_seconds=8.0))
        with contextlib.closing(site):
            site.await_begun(site.start(seconds=0.1))
            faults.delay_seconds = 0.4
            site.finish()
            found = examine(site.store, site.journal)
        assert found.is_sound, found


def test_a_worker_whose_network_is_cut_ends_its_run_before_its_successor_begins(
    tmp_path: Path, endpoint: str
) -> None:
    """Its requests hang: they neither fail nor come back, as behind a firewall that drops everything."""
    with open_faulty(endpoint) as (address, faults):
        site = Site(tmp_path, make_bucket(endpoint), build_variables(endpoint))
        FleetSite.create(site.store, build_plan(1, ttl_seconds=3.0))
        with contextlib.closing(site):
            cut = site.start(seconds=60, variables=build_variables(address))
            site.await_begun(cut)
            site.start(seconds=0.2)  # it is ready to take over before the network is cut
            assert wait_until(lambda: len([*site.store.iter_objects("clock")]) > 1)
            faults.delay_seconds = 600
            assert wait_until(lambda: FleetSite.open(site.store).read_status().is_over)
            found = examine(site.store, site.journal)
            lines = [json.loads(line) for line in site.journal.read_text().splitlines()]
            site.kill(cut)
    assert found.is_sound, found
    assert [line["word"] for line in lines if line["epoch"] == 1] == ["begin", "cut"]
    ended = max(line["at"] for line in lines if line["epoch"] == 1)
    assert ended < min(line["at"] for line in lines if line["epoch"] == 2)


class _Skewed(Store):
    """A store whose clock is hours away from this machine's."""

    clock_us = 20_000

    def __init__(self, inner: Store, offset_us: int) -> None:
        super().__init__(inner.url)
        self._inner = inner
        self._offset_us = offset_us

    def create(self, key: str, data: bytes) -> bool:
        return self._inner.create(key, data)

    def replace(self, key: str, data: bytes) -> None:
        self._inner.replace(key, data)

    def update(self, key: str, data: bytes, *, tag: str) -> bool | None:
        return self._inner.update(key, data, tag=tag)

    def read(self, key: str) -> bytes:
        return self._inner.read(key)

    def find(self, key: str) -> StoredObject | None:
        found = self._inner.find(key)
        return None if found is None else self._shift(found)

    def find_tag(self, key: str) -> str | None:
        return self._inner.find_tag(key)

    def iter_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        return map(self._shift, self._inner.iter_objects(prefix, after=after))

    def upload(self, key: str, path: Path) -> Digest:
        return self._inner.upload(key, path)

    def download(self, key: str, path: Path) -> Digest:
        return self._inner.download(key, path)

    def _shift(self, found: StoredObject) -> StoredObject:
        return StoredObject(
            key=found.key, size_bytes=found.size_bytes, modified_us=found.modified_us + self._offset_us
        )


@pytest.mark.parametrize("hours", [-26, 26])
def test_a_clock_that_is_wrong_by_a_day_neither_frees_nor_keeps_a_claim(tmp_path: Path, hours: int) -> None:
    inner = open_store(f"file:{tmp_path / 'store'}", {}, may_make=True)
    store = _Skewed(inner, hours * 3_600_000_000)
    plan = build_plan(1, ttl_seconds=2.0)
    FleetSite.create(store, plan)
    store.create(f"run/000000-{plan.runs[0].run_id}/claim.0001", b"a worker that died")
    began = time.monotonic()
    worker, _ = build_worker(store, Attempts(tmp_path), tmp_path)
    claimed = [time.monotonic() - began for event in worker.work() if event.word == "claimed"]
    assert len(claimed) == 1
    assert claimed[0] >= 1.9, "a claim was superseded before its time"
    assert FleetSite.open(store).read_status().done == 1


def test_a_budget_holds_to_the_cent_while_workers_die(tmp_path: Path, endpoint: str) -> None:
    with open_site("file", tmp_path, endpoint) as site:
        FleetSite.create(site.store, build_plan(8, ttl_seconds=1.5, total_usd="9.00"))
        victim = site.start(seconds=0.4, slots=2)
        site.await_begun(victim)
        other = site.start(seconds=0.1)
        site.kill(victim)
        other.wait(timeout=120)
        board = FleetSite.open(site.store).look()
        assert board.sum_committed() <= 9_000_000
        status = FleetSite.open(site.store).read_status()
        assert status.spent_usd + status.reserved_usd <= 9
        assert status.done >= 2
