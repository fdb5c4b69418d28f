"""What the host mounts, before and while sandboxes are open, in mounts of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from support.harness import HARNESSES, require_sandboxes

BEGIN = """
import os, subprocess, sys
from support.harness import ORDINARY_UID, HarnessProcess, make_workspace

def mount(*words):
    subprocess.run(["mount", *words], check=True)

def said(result):
    return (result["stdout"]["prefix"] + result["stderr"]["prefix"]).strip()

def start():
    return HarnessProcess(ORDINARY_UID if sys.argv[1] == "user" else None)
"""
LATER_BELOW_USR = """
mount("-t", "tmpfs", "-o", "mode=0755", "ours", "/usr/local")
os.mkdir("/usr/local/later")
harness = start()
with make_workspace(harness, {}) as path, harness.sandbox(path) as sandbox:
    mount("-t", "tmpfs", "-o", "mode=1777", "later", "/usr/local/later")
    sandbox.shell("echo evil > /usr/local/later/file")
    print(os.listdir("/usr/local/later"), said(sandbox.shell("grep -c later /proc/self/mountinfo")))
harness.close()
"""
LATER_WORKSPACE = """
harness = start()
with make_workspace(harness, {"below": ""}) as path:
    with harness.sandbox(path) as sandbox:
        sandbox.shell("true")
    mount("-t", "tmpfs", "-o", "mode=1777", "later", str(path))
    (path / "above").touch()
    with harness.sandbox(path) as sandbox:
        print(said(sandbox.shell("ls")))
    subprocess.run(["umount", str(path)], check=True)
harness.close()
"""
RESTRICTED = """
mount("--bind", "/etc/ssl", "/etc/ssl")
mount("-o", "remount,bind,noexec,nosuid,nodev", "/etc/ssl")
mount("-t", "tmpfs", "-o", "mode=0755", "ours", "/mnt")
os.mkdir("/mnt/dev")
mount("--rbind", "/dev", "/mnt/dev")
mount("-o", "remount,bind,ro", "/mnt/dev")
mount("--rbind", "/mnt/dev", "/dev")
harness = start()
with make_workspace(harness, {}) as path, harness.sandbox(path) as sandbox:
    print(said(sandbox.shell("echo gone > /dev/null; id -un; ls -d /etc/ssl")))
harness.close()
"""


def run_in_mounts(code: str, *, who: str, propagation: str) -> str:
    require_sandboxes()
    if os.geteuid():
        pytest.skip("only root can make mounts that an ordinary user's harness finds")
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1): mounts of the test's own cannot be had")
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", propagation, sys.executable, "-c", BEGIN + code, who],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("who", HARNESSES)
def test_what_the_host_mounts_later_does_not_appear_inside_where_it_could_be_written(who: str) -> None:
    assert run_in_mounts(LATER_BELOW_USR, who=who, propagation="shared") == "[] 0"


@pytest.mark.parametrize("propagation", ["shared", "private"])
@pytest.mark.parametrize("who", HARNESSES)
def test_what_lies_below_a_later_mount_is_never_taken_for_the_workspace(who: str, propagation: str) -> None:
    assert run_in_mounts(LATER_WORKSPACE, who=who, propagation=propagation) == "above"


@pytest.mark.parametrize("who", HARNESSES)
def test_what_the_host_forbids_for_devices_and_settings_stays_forbidden_and_in_use(who: str) -> None:
    assert run_in_mounts(RESTRICTED, who=who, propagation="private") == "sandbox\n/etc/ssl"
