"""Setup steps, services and artifacts that mean harm."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial.environment import SandboxRequest
from repotrial.isolation import CommandSpec
from repotrial.trace import Exited
from repotrial.workspace import check_sealed
from support import installation_process
from support.errors import raises_code
from support.harness import ORDINARY_UID, list_host_processes
from support.installations import open_trial, shell

SLEEPS = "cat /proc/[0-9]*/comm 2> /dev/null | grep -qx sleep"


def _step(script: str, outputs: str = "[]") -> str:
    return f"[[setup]]\nid = 'harm'\noutputs = {outputs}\nrun = '''\n{script}\n'''\n"


def test_a_daemon_that_setup_leaves_behind_is_dead() -> None:
    marker = "86417.5"
    setup = _step(f"setsid -f sleep {marker} < /dev/null > /dev/null 2>&1\nuntil {SLEEPS}; do :; done")
    with open_trial(setup=setup) as trial, trial.open() as installation:
        assert list_host_processes([marker]) == []
        assert shell(installation, SLEEPS).exit == Exited(code=1)


def test_hooks_and_settings_of_git_that_setup_writes_are_not_kept() -> None:
    setup = _step(
        "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch /tmp/ran\\n' > .git/hooks/post-checkout\n"
        "chmod +x .git/hooks/post-checkout\n"
        "git config core.fsmonitor 'touch /tmp/ran'; git config user.name harm"
    )
    with open_trial(setup=setup) as trial, trial.open() as installation:
        result = shell(
            installation, "git config --get-regexp 'core.fsmonitor|user'; ls .git/hooks; git status -s"
        )
        assert result.stdout.prefix == b""
        assert check_sealed(installation.base) == []


def test_another_history_in_place_of_gits_own_is_thrown_away() -> None:
    setup = _step("rm -rf .git; ln -s /etc .git")
    with open_trial(setup=setup) as trial, trial.open() as installation:
        assert shell(installation, "git rev-list --all --count").stdout.prefix == b"1\n"
        assert (installation.base.path / ".git").is_dir()
        assert not (installation.base.path / ".git").is_symlink()


def test_links_that_setup_leaves_lead_nowhere_outside() -> None:
    with open_trial() as trial:
        secret = trial.place / "secret"
        secret.mkdir()
        (secret / "note").write_text("of the host\n")
        setup = _step(
            f"ln -s {secret} out; ln -s {secret} /opt/out/link\n"
            "mkdir -p /opt/out/in; ln -s / /opt/out/in/root",
            "['out', '/opt/out']",
        )
        trial.write(setup=setup)
        with trial.open() as installation:
            result = shell(installation, "cat out/note /opt/out/link/note; ls /opt/out/in/root")
        assert b"of the host" not in result.stdout.prefix
        assert result.stderr.prefix.count(b"No such file") == 2
        assert b"workspace" in result.stdout.prefix
        assert [path.name for path in secret.iterdir()] == ["note"]


def test_an_output_inside_another_that_setup_moved_away_is_not_looked_for_through_a_link() -> None:
    with open_trial() as trial:
        secret = trial.place / "secret"
        (secret / "b").mkdir(parents=True)
        script = f"mv /opt/deep/a /opt/deep/moved; ln -s {secret} /opt/deep/a"
        trial.write(setup=_step(script, "['/opt/deep', '/opt/deep/a/b']"))
        with trial.open() as installation, raises_code("sandbox-start", match="/opt/deep/a/b"):
            shell(installation, "ls /opt/deep/a/b")
        assert [*(secret / "b").iterdir()] == []


def test_pipes_and_sockets_that_setup_leaves_are_removed() -> None:
    bind = "import socket; socket.socket(socket.AF_UNIX).bind"
    setup = _step(
        "mkfifo pipe /opt/out/pipe\n"
        f"/usr/bin/python3 -c '{bind}(\"/opt/out/socket\")'; /usr/bin/python3 -c '{bind}(\"socket\")'\n"
        "echo 1 > /opt/out/file",
        "['/opt/out']",
    )
    with open_trial(setup=setup) as trial, trial.open() as installation:
        assert shell(installation, "ls; ls /opt/out").stdout.prefix.split() == [b"readme", b"file"]


@pytest.mark.parametrize("place", ["/workspace", "/opt/out"])
def test_a_step_that_fills_the_disk_is_stopped(place: str) -> None:
    script = f"for n in $(seq 200); do head -c 4M /dev/zero > {place}/$n; sleep 0.05; done; sleep 600"
    with open_trial(setup=_step(script, "['/opt/out']")) as trial:
        with raises_code("setup-failed", match="disk"):
            trial.open()
        assert trial.list_leftovers() == []


def test_a_step_that_prints_for_ever_is_stopped() -> None:
    with open_trial(setup=_step("yes")) as trial:
        with raises_code("setup-failed", match="output") as raised:
            trial.open()
        assert len(str(raised.value)) < 10_000


def test_what_a_step_prints_has_no_power_over_a_terminal() -> None:
    with open_trial(setup=_step("printf '\\033[2J\\033]0;owned\\007'; exit 1")) as trial:
        with raises_code("setup-failed") as raised:
            trial.open()
        assert "\033" not in str(raised.value)


def test_a_step_reaches_no_network_and_nothing_of_the_host() -> None:
    setup = _step(
        "ls /sys/class/net 2> /dev/null | grep -v lo && exit 1; cat /proc/net/route | tail -n +2 > routes"
    )
    with open_trial(setup=setup) as trial, trial.open() as installation:
        assert shell(installation, "cat routes; ls -d /home /root").stdout.prefix == b""


def test_a_service_that_forks_away_is_dead_after_the_close() -> None:
    marker = "86418.5"
    environment = f"""
[[environment.services]]
id = "fugitive"
run = "setsid -f sleep {marker}; trap '' TERM; while :; do sleep 1; done"
readiness = {{ kind = "command", run = "{SLEEPS}", interval_ms = 20 }}
stop_seconds = 1
"""
    with (
        open_trial(environment) as trial,
        trial.open() as installation,
        installation.open_workspace() as workspace,
    ):
        with installation.open_sandbox(workspace, SandboxRequest(phase="act")) as sandbox:
            assert sandbox.run(CommandSpec(argv=("bash", "-c", SLEEPS))).exit == Exited(code=0)
        assert list_host_processes(["sleep", marker]) == []


def test_a_forged_note_of_a_services_number_harms_nobody() -> None:
    environment = """
[[environment.services]]
id = "calm"
run = "exec sleep infinity"
readiness = { kind = "command", run = "true", interval_ms = 20 }
stop_seconds = 1
"""
    # The service may be ready before it has left its note.
    take = "until rm /run/repotrial/calm.pid 2> /dev/null; do sleep 0.01; done"
    forge = f"{take}; echo 1 > /run/repotrial/calm.pid"
    with open_trial(environment) as trial, trial.open() as installation:
        assert shell(installation, forge).exit == Exited(code=0)
        assert shell(installation, f"{take}; mkfifo /run/repotrial/calm.pid").exit == Exited(code=0)


def _build_tar(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        return buffer.getvalue()


def _build_zip(name: str) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(name, b"x")
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("unpack", "data", "error"),
    [
        ("tar", _build_tar("../out"), "unsafe-path"),
        ("tar", _build_tar("/etc/out"), "unsafe-path"),
        ("tar", _build_tar("a", tarfile.LNKTYPE), "unsupported-entry"),
        ("tar", _build_tar("a", tarfile.FIFOTYPE), "unsupported-entry"),
        ("zip", _build_zip("../out"), "unsafe-path"),
    ],
)
def test_an_artifact_that_leads_out_is_refused(unpack: str, data: bytes, error: str) -> None:
    environment = f"""
[[environment.artifacts]]
id = "harm"
source = "harm.{unpack}"
digest = "{digest_bytes(data)}"
target = "/opt/harm"
unpack = "{unpack}"
"""
    with open_trial(environment, files={f"harm.{unpack}": data}) as trial:
        with raises_code(error):
            trial.open()
        assert not [*trial.cache.rglob("out")]
        assert trial.list_leftovers() == []


def test_an_ordinary_user_gets_the_same() -> None:
    """Setup, outputs, a service and files, with a harness that is nobody in particular."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    environment = """
[[environment.files]]
source = "conf"
target = "/opt/conf"
[[environment.services]]
id = "calm"
run = "exec sleep infinity"
readiness = { kind = "command", run = "SLEEPS", interval_ms = 20 }
""".replace("SLEEPS", SLEEPS)
    setup = _step("echo made > build; echo kept > /opt/out/file; mkfifo pipe", "['build', '/opt/out']")
    with open_trial(environment, setup, files={"conf": "conf\n"}) as trial:
        trial.cache.mkdir()
        os.chown(trial.cache, ORDINARY_UID, ORDINARY_UID)
        script = f"cat build /opt/out/file /opt/conf; {SLEEPS} && echo 1; ls; id -u"
        done = subprocess.run(
            [
                *(sys.executable, str(Path(installation_process.__file__)), str(ORDINARY_UID)),
                *(str(trial.directory), str(trial.cache), script),
            ],
            capture_output=True,
            check=False,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(trial.cache)},
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer == {"answer": "made\nkept\nconf\n1\nbuild\nreadme\n1000\n"}
        assert trial.list_leftovers() == []
