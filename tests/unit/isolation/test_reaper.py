from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from repotrial.isolation import build_label
from repotrial.isolation._resources._reaper import reap_leftovers
from support.waiting import PATIENCE_SECONDS, wait_until


def abandoned_label() -> str:
    words = build_label().split("-")
    return "-".join([*words[:3], "4194304", "1", words[5]])


def test_a_scratch_directory_of_a_dead_harness_is_removed_if_it_is_ours() -> None:
    ours = Path(tempfile.gettempdir(), abandoned_label())
    (ours / "deep").mkdir(parents=True)
    living = Path(tempfile.gettempdir(), build_label())
    living.mkdir()
    link = Path(tempfile.gettempdir(), abandoned_label())
    link.symlink_to(living)
    try:
        reaped = reap_leftovers()
        # Any harness that starts now may be quicker than we are.
        assert wait_until(lambda: not ours.exists())
        assert link not in reaped
        assert link.is_symlink()
        assert living.exists()
    finally:
        link.unlink()
        living.rmdir()


def start_named(name: str) -> subprocess.Popen[bytes]:
    """A process that is called so in lists."""
    return subprocess.Popen([name, "97"], executable="/bin/sleep")


def is_named(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"repotrial-")


def test_a_process_of_a_dead_harness_is_killed() -> None:
    with start_named(abandoned_label()) as process:
        # Any harness that starts now may be quicker than we are.
        assert wait_until(lambda: is_named(process) or process.poll() is not None)
        reap_leftovers()
        assert process.wait(PATIENCE_SECONDS) == -9


def test_a_process_of_a_living_harness_is_not() -> None:
    with start_named(build_label()) as process:
        assert wait_until(lambda: is_named(process))
        assert Path("/proc", str(process.pid)) not in reap_leftovers()
        assert process.poll() is None
        process.kill()
