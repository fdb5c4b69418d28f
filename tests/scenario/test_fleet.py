"""Runs by workers that share a store: real commands, real sandboxes, real engines."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import COMMAND, Ended, call, surroundings
from support.leftovers import await_only, foster_orphans, list_descendants
from support.slurm import open_slurm, require_slurm
from support.stores import KEY_ID, SECRET, build_variables, make_bucket, open_s3
from support.trials import HONEST, Court, open_court
from support.waiting import wait_until

PROVIDER_SECRET = "sk-provider-secret-3b9d10ce"


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as opened:
        yield opened


class Bench:
    """A court whose runs are shared in a store."""

    def __init__(self, court: Court, url: str, **variables: str) -> None:
        self.court = court
        self.url = url
        self._variables = {"XDG_CONFIG_HOME": str(court.place / "config"), **variables}

    def call(self, capsys: pytest.CaptureFixture[str], *words: str | Path) -> Ended:
        with surroundings(self.court.place, **self._variables):
            return call(capsys, *words)

    def share(self, capsys: pytest.CaptureFixture[str], *words: str | Path) -> Ended:
        with surroundings(self.court.place, **self._variables):
            return call(capsys, *self.court.build_words(*words, "--store", self.url))

    def build_work(self, *words: str) -> list[str]:
        places = ["--cache", str(self.court.place / "cache"), "--work", str(self.court.place / "work")]
        places += ["--key-file", str(self.court.place / "seal-key.pem")]
        return ["fleet", "work", self.url, *places, "--idle-seconds", "2", *words]

    def start_worker(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *self.build_work(*words)],
            env={**os.environ, **self._variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def read_status(self, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.call(capsys, "fleet", "status", self.url, "--json").out)
        return found

    def verify(self, capsys: pytest.CaptureFixture[str], runs: int) -> None:
        """All runs are in, sealed by workers for whose keys the study's key vouches, and count once."""
        status = self.read_status(capsys)
        assert (status["planned"], status["done"], status["claimed"]) == (runs, runs, 0)
        out = self.court.place / "pulled"
        assert self.call(capsys, "fleet", "pull", self.url, "--out", out).status == 0
        key = self.court.place / "study.pem"
        shown = self.call(capsys, "trace", "key", "show", "--key-file", self.court.place / "seal-key.pem")
        key.write_text(shown.out)
        for place in (out, self.url):
            assert self.call(capsys, "run", "verify", place, "--key", key, "--integrity-only").status == 0
        assert self.call(capsys, "run", "verify", self.url, "--key", key).status == 0
        listed = json.loads(self.call(capsys, "run", "list", out, "--key", key, "--json").out)
        counted = [entry for entry in listed if not entry["is_excused"]]
        assert len({entry["run_id"].rpartition("-a")[0] for entry in counted}) == len(counted) == runs
        assert {entry["trust"] for entry in counted} == {"listed"}


def test_a_plan_is_shared_worked_on_pulled_and_verified(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(court, f"file:{court.place / 'store'}")
    contract = court.write_contract()
    words = (contract, "--agent", "noop", "--agent", "reference")
    shared = bench.share(capsys, *words, "--dry-run", "--json")
    assert shared.status == 0, shared.err
    assert bench.read_status(capsys)["planned"] == 2
    assert not court.list_runs()
    refused = bench.share(capsys, *words, "--repeats", "2")
    assert (refused.status, "store-in-use" in refused.err) == (2, True)
    worked = bench.call(capsys, *bench.build_work("--slots", "2", "--json"))
    assert worked.status == 0, worked.err
    bench.verify(capsys, 2)
    said = [json.loads(line)["word"] for line in worked.out.splitlines()]
    assert said.count("counted") == 2
    logged = json.loads(bench.call(capsys, "fleet", "logs", bench.url, "--json").out)
    assert [line["word"] for line in logged] == said
    report = court.place / "report.html"
    assert bench.call(capsys, "report", "build", bench.url, "--out", report).status == 0
    assert "reference" in report.read_text()


def test_another_release_or_key_is_refused_before_anything_is_claimed(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(court, f"file:{court.place / 'store'}")
    bench.share(capsys, court.write_contract(), "--agent", "noop", "--dry-run")
    other = bench.call(capsys, *bench.build_work("--key-file", str(court.place / "another.pem")))
    assert (other.status, "study-key" in other.err) == (2, True)
    path = court.place / "store" / "plan" / "plan.json"
    plan = json.loads(path.read_text())
    plan["conditions"]["release"] = "0.0.1"
    path.write_text(json.dumps(plan))
    other = bench.call(capsys, *bench.build_work())
    assert other.status == 2
    assert "release: expected 0.0.1 as in the plan" in other.err
    assert not (court.place / "store" / "run").exists()


def test_a_killed_workers_sandboxes_die_with_it_and_another_goes_on(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(court, f"file:{court.place / 'store'}")
    slow = court.write("slow.sh", f"sleep 4\n{HONEST}")
    bench.share(capsys, court.write_contract(), "--agent", f"script:{slow}", "--dry-run")
    path = court.place / "store" / "plan" / "plan.json"
    path.write_text(path.read_text().replace('"ttl_seconds":60.0', '"ttl_seconds":6.0'))
    with foster_orphans():
        known = {os.getpid(), *list_descendants(os.getpid())}
        victim = bench.start_worker()
        runs = court.place / "work"
        assert wait_until(lambda: any(runs.glob("*/runs/*/trace.jsonl")))
        victim.kill()
        victim.communicate()
        assert await_only(known) == [], "something that the worker started is still there"
    worked = bench.call(capsys, *bench.build_work("--idle-seconds", "20"))
    assert worked.status == 0, worked.err + worked.out
    bench.verify(capsys, 1)
    assert bench.read_status(capsys)["attempts"] == 2


def iter_texts(place: Path) -> Iterator[tuple[str, bytes]]:
    for path in place.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield str(path), data
            with contextlib.suppress(gzip.BadGzipFile, EOFError):
                yield f"{path} (unpacked)", gzip.decompress(data)


def test_no_credential_is_in_store_scripts_traces_or_logs(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_s3() as endpoint:
        url = make_bucket(endpoint)
        variables = {**build_variables(endpoint), "OPENAI_API_KEY": PROVIDER_SECRET}
        bench = Bench(court, url, **variables)
        bench.share(capsys, court.write_contract(), "--agent", "noop", "--dry-run")
        worked = bench.call(capsys, *bench.build_work())
        assert worked.status == 0, worked.err
        bench.verify(capsys, 1)
        engine = court.write("engine.toml", '[kubernetes]\nimage = "x@sha256:0"\n')
        words = (court.place / "answer", "--agent", "noop", "--on", "kubernetes", "--engine", engine)
        written = bench.share(capsys, *words)
        assert written.status == 0, written.err
        mirror = court.place / "mirror"
        _copy_bucket(url, variables, mirror)
    found = [
        name
        for name, data in iter_texts(court.place)
        if any(secret.encode() in data for secret in (SECRET, KEY_ID, PROVIDER_SECRET))
    ]
    assert found == []
    assert sum(1 for _ in mirror.rglob("*")) > 5
    said = worked.out + worked.err + written.out
    assert SECRET not in said
    assert PROVIDER_SECRET not in said


def _copy_bucket(url: str, variables: dict[str, str], target: Path) -> None:
    from repotrial.store import open_store

    store = open_store(url, variables)
    for prefix in ("plan", "run", "worker", "probe", "clock"):
        for found in store.iter_objects(prefix):
            path = target / found.key
            path.parent.mkdir(parents=True, exist_ok=True)
            store.download(found.key, path)


@pytest.mark.skipif(
    os.environ.get("REPOTRIAL_EXHAUSTIVE") != "1", reason="restarts daemons: `make test-all` does it"
)
def test_real_slurm_loses_and_doubles_nothing_while_its_daemons_are_killed(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    require_slurm()
    with open_slurm() as slurm:
        bench = Bench(court, f"file:{court.place / 'store'}", **slurm.variables)
        engine = court.write(
            "engine.toml",
            f"workers = 2\nidle_seconds = 2\n{_say_places(court)}"
            '[slurm]\nvariables = ["HOME", "PATH", "LANG"]\n',
        )
        contract = court.write_contract()
        words = ("--agent", "noop", "--agent", "reference", "--repeats", "2", "--on", "slurm")
        shared = bench.share(capsys, contract, *words, "--engine", engine)
        assert shared.status == 0, shared.err
        assert wait_until(lambda: bench.read_status(capsys)["attempts"] > 0), _read_logs(court.place)
        slurm.kill("slurmctld")
        slurm.kill("slurmd")
        slurm.start("slurmctld")
        slurm.start("slurmd")
        assert wait_until(lambda: bench.read_status(capsys)["is_over"]), _read_logs(court.place)
        bench.verify(capsys, 4)
        assert wait_until(slurm.is_idle), "idle workers did not end"


def _say_places(court: Court) -> str:
    places = ["--cache", str(court.place / "cache"), "--work", str(court.place / "work")]
    return f"work_options = {json.dumps(places)}\n"


def _read_logs(place: Path) -> str:
    return "\n".join(path.read_text()[-1500:] for path in (place / "fleet").glob("*.log"))


def test_real_dask_finishes_although_a_worker_is_killed(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with _open_dask(court.place) as (address, workers):
        bench = Bench(court, f"file:{court.place / 'store'}")
        engine = court.write(
            "engine.toml",
            f'workers = 2\nidle_seconds = 8\n{_say_places(court)}[dask]\nscheduler = "{address}"\n',
        )
        contract = court.write_contract()
        slow = court.write("slow.sh", f"sleep 2\n{HONEST}")
        words = ("--agent", f"script:{slow}", "--repeats", "3", "--dry-run")
        assert bench.share(capsys, contract, *words).status == 0
        path = court.place / "store" / "plan" / "plan.json"
        path.write_text(path.read_text().replace('"ttl_seconds":60.0', '"ttl_seconds":6.0'))
        fleet_words = ("fleet", "start", bench.url, "--on", "dask", "--engine", engine)
        key = ("--key-file", court.place / "seal-key.pem")
        started = bench.call(capsys, *fleet_words, *key)
        assert started.status == 0, started.err
        assert wait_until(lambda: bench.read_status(capsys)["attempts"] > 0)
        workers[0].kill()
        workers[0].wait()
        again = bench.call(capsys, *fleet_words, *key)
        assert again.status == 0, again.err
        assert wait_until(lambda: bench.read_status(capsys)["is_over"])
        bench.verify(capsys, 3)


@contextlib.contextmanager
def _open_dask(place: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers on the loopback, each a process of its own."""
    port = place / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(port)]
    scheduler = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            *options,
        ],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    workers: list[subprocess.Popen[bytes]] = []
    try:
        assert wait_until(port.exists)
        address = json.loads(port.read_text())["address"]
        for number in range(2):
            words = [
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--local-directory",
                str(place / f"d{number}"),
            ]
            workers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "distributed.cli.dask_worker", address, *words],
                    stderr=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            )
        yield address, workers
    finally:
        for process in [*workers, scheduler]:
            process.kill()
            process.wait()
