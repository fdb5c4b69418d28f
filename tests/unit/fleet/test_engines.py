"""What engines are given: one command, no secret, and conditions that keep two workers from one place."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from repotrial import api
from repotrial._core.errors import RepoTrialError
from repotrial.fleet import FleetSite
from repotrial.store import open_store
from support.fleets import build_plan

SECRET = "sk-engine-secret-81f2c9"


class Desk:
    """A plan in a directory, and a place for scripts."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.url = f"file:{place / 'a store; $(touch hacked)'}"
        FleetSite.create(open_store(self.url, {}, may_make=True), build_plan(3))

    def start(self, engine: Any, settings: str = "") -> Any:
        file = self.place / "engine.toml"
        file.write_text(settings)
        fleet = api.Fleet(self.url, {"OPENAI_API_KEY": SECRET})
        return fleet.start(engine, file, key_file=self.place / "seal-key.pem", directory=self.place / "fleet")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return Desk(tmp_path)


def lay_sbatch(place: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (place / "bin").mkdir()
    (place / "bin" / "sbatch").write_text(f"#!/bin/sh\n{text}\n")
    (place / "bin" / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:/usr/bin:/bin")


def test_a_job_array_is_written_and_submitted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_sbatch(desk.place, monkeypatch, "echo '17;cluster'")
    started = desk.start(
        "slurm",
        'workers = 3\nslots = 2\n[slurm]\noptions = ["--partition=long"]\nsecrets_file = "/x/my keys"\n',
    )
    script = Path(started.file).read_text()
    assert started.jobs == ("17",)
    for line in ("--array=0-2", "--cpus-per-task=2", "--requeue", "--partition=long"):
        assert f"#SBATCH {line}\n" in script
    assert ". '/x/my keys'\n" in script
    assert SECRET not in script
    assert Path(started.file).stat().st_mode & 0o077 == 0


def test_the_address_of_a_store_is_no_shell_code(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_sbatch(desk.place, monkeypatch, "echo 1")
    script = Path(desk.start("slurm").file)
    text = script.read_text()
    lines = [line for line in text.splitlines() if line.startswith("exec ")]
    said = subprocess.run(
        ["sh", "-c", lines[0].replace("exec ", "printf '%s\\n' ", 1)],
        cwd=desk.place,
        capture_output=True,
        text=True,
        check=True,
    )
    assert desk.url in said.stdout.splitlines()
    assert not (desk.place / "hacked").exists()


def test_a_missing_or_refusing_sbatch_is_one_clear_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RepoTrialError, match="expected sbatch on this machine") as caught:
        desk.start("slurm")
    assert caught.value.code == "engine-unavailable"
    lay_sbatch(desk.place, monkeypatch, "echo 'Invalid partition' >&2; exit 1")
    with pytest.raises(RepoTrialError, match="found exit code 1: Invalid partition"):
        desk.start("slurm")


KUBERNETES = """\
workers = 5
[kubernetes]
image = "registry.example/rt@sha256:00"
secret = "providers"
key_secret = "study"
"""


def test_the_manifest_is_valid_by_the_published_schema(desk: Desk) -> None:
    started = desk.start("kubernetes", KUBERNETES)
    manifest = json.loads(Path(started.file).read_text())
    kubernetes_validate.validate(manifest, "1.33", strict=True)
    spec = manifest["spec"]
    assert (spec["completions"], spec["completionMode"]) == (5, "Indexed")
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["backoffLimitPerIndex"] == 3
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailIndex"]
    assert spec["template"]["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "providers"}}]
    assert SECRET not in json.dumps(manifest)


@pytest.mark.parametrize("damage", ["podFailurePolicy", "unknownField"])
def test_the_schema_notices_a_wrong_manifest(desk: Desk, damage: str) -> None:
    manifest = json.loads(Path(desk.start("kubernetes", KUBERNETES).file).read_text())
    broken = copy.deepcopy(manifest)
    broken["spec"][damage] = "three"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.33", strict=True)


@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        ("kubernetes", "", r"expected \[kubernetes\] with an image"),
        ("dask", "", r"expected \[dask\] with a scheduler"),
        ("dask", '[dask]\nscheduler = "tcp://10.0.0.7:8786"', "expected tls:// with ca_file"),
        ("dask", '[dask]\nscheduler = "tls://10.0.0.7:8786"', "expected tls:// with ca_file"),
        ("slurm", "workers = 0", "workers"),
        ("slurm", "worker = 2", "worker"),
        ("slurm", '[slurm]\nvariables = ["A B"]', "expected a name, found 'A B'"),
    ],
)
def test_a_wrong_engine_file_is_one_clear_line(desk: Desk, engine: str, settings: str, message: str) -> None:
    with pytest.raises(RepoTrialError, match=message) as caught:
        desk.start(engine, settings)
    assert caught.value.code == "engine-file"
    assert "\n" not in caught.value.message


def test_a_scheduler_that_is_not_there_is_one_clear_line(desk: Desk) -> None:
    with pytest.raises(RepoTrialError, match="expected a scheduler, found") as caught:
        desk.start("dask", '[dask]\nscheduler = "tcp://127.0.0.1:9"\ntimeout_seconds = 1')
    assert caught.value.code == "engine-unavailable"
