"""Real Slurm on one machine: its own munge, controller and node daemon, without systemd and without /etc."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.waiting import wait_until

_CONF = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")


def require_slurm() -> None:
    """Skip, with the reason, where Slurm cannot be run."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_find_path()) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; get it with: apt-get install slurm-wlm munge")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons are started as root, and this user is another")


def _find_path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Slurm:
    """A cluster of one node with four processors."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.variables = {"SLURM_CONF": str(place / "slurm.conf"), "PATH": _find_path()}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        words = {
            "munged": [
                "munged", "--foreground", "--force", f"--key-file={self.place}/munge.key",
                f"--socket={self.place}/munge.socket", f"--pid-file={self.place}/munged.pid",
                f"--log-file={self.place}/munged.log", f"--seed-file={self.place}/munged.seed",
            ],
            "slurmctld": ["slurmctld", "-D"],
            "slurmd": ["slurmd", "-D"],
        }[name]  # fmt: skip
        self._daemons[name] = subprocess.Popen(
            words, env={**os.environ, **self.variables}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self, name: str) -> None:
        """End a daemon without a warning."""
        daemon = self._daemons.pop(name)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()

    def call(self, *words: str) -> str:
        ended = subprocess.run(
            words,
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ended.stdout

    def is_idle(self) -> bool:
        return not self.call("squeue", "--noheader").strip()

    def close(self) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def open_slurm() -> Iterator[Slurm]:
    """A cluster that is up."""
    place = Path(tempfile.mkdtemp(prefix="repotrial-slurm-"))
    place.chmod(0o755)
    (place / "munge.key").write_bytes(os.urandom(1024))
    (place / "munge.key").chmod(0o600)
    for folder in ("state", "spool"):
        (place / folder).mkdir()
    host = socket.gethostname().partition(".")[0]
    conf = _CONF.format(place=place, host=host, controller=_find_port(), node=_find_port())
    (place / "slurm.conf").write_text(conf)
    slurm = Slurm(place)
    try:
        slurm.start("munged")
        assert wait_until((place / "munge.socket").exists)
        slurm.start("slurmctld")
        slurm.start("slurmd")
        assert wait_until(lambda: "idle" in slurm.call("sinfo", "--noheader", "--format=%T")), (
            place / "slurmctld.log"
        ).read_text()[-2000:] + (place / "slurmd.log").read_text()[-2000:]
        yield slurm
    finally:
        slurm.close()
        shutil.rmtree(place, ignore_errors=True)
