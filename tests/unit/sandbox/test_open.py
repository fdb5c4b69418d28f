from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.sandbox import CommandSpec, Level, OverlayMount, SandboxSpec, open_sandbox
from repotrial.sandbox._identity import find_identity
from repotrial.sandbox._levels._plain import UnsandboxedWarning
from repotrial.sandbox._levels._session import SandboxLostError
from repotrial.sandbox._machine._probe import Missing, find_landlock
from repotrial.sandbox._open import LevelMissingError, UnsandboxedError
from repotrial.trace import Exited, NotStarted, Signaled, TimedOut
from support.accounts import public_directory
from support.harness import require_sandboxes


def test_level_0_is_refused_unless_it_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(UnsandboxedError):
        open_sandbox(SandboxSpec(workspace=tmp_path), level=Level.L0)


def test_level_0_is_loud_and_works() -> None:
    with public_directory() as workspace:
        if os.geteuid() == 0:
            os.chown(workspace, find_identity().uid, find_identity().gid)
        spec = SandboxSpec(workspace=workspace, variables={"PATH": "/usr/bin:/bin", "A": "1"})
        with pytest.warns(UnsandboxedWarning, match="without any isolation"):
            sandbox = open_sandbox(spec, level=Level.L0, allow_unsandboxed=True)
        with sandbox:
            assert sandbox.capabilities.level is Level.L0
            sandbox.enter_stage("test")
            sandbox.freeze()
            sandbox.resume()
            result = sandbox.run(
                CommandSpec(argv=("sh", "-c", "echo $A$B; pwd; id -u >&2; exit 3"), variables={"B": "2"})
            )
            assert result.exit == Exited(code=3)
            assert result.stdout.prefix.decode() == f"12\n{workspace}\n"
            assert result.stderr.prefix != b"0\n"
            assert sandbox.run(CommandSpec(argv=("sh", "-c", "kill -9 $$"))).exit == Signaled(signal=9)
            late = sandbox.run(CommandSpec(argv=("sh", "-c", "sleep 97 & sleep 97"), timeout_seconds=1))
            assert (late.exit, late.cause) == (TimedOut(ceiling_us=1_000_000), "timeout")
            assert sandbox.run(CommandSpec(argv=("yes",), output_bytes=1000)).cause == "output"
            assert isinstance(sandbox.run(CommandSpec(argv=("no-such-program",))).exit, NotStarted)


def test_a_level_that_is_not_there_is_not_replaced_by_a_weaker_one(tmp_path: Path) -> None:
    with pytest.raises(LevelMissingError, match="L3c: no container engine listens at") as refused:
        open_sandbox(SandboxSpec(workspace=tmp_path), level=Level.L3C, engine_socket=tmp_path / "none")
    assert "install Docker or podman" in refused.value.hint


def test_level_1_works_and_says_that_it_is_weaker() -> None:
    with public_directory() as workspace:
        if isinstance(found := find_landlock(), Missing):
            pytest.skip(found.reason)
        if os.geteuid() == 0:
            os.chown(workspace, find_identity().uid, find_identity().gid)
        spec = SandboxSpec(workspace=workspace, variables={"PATH": "/usr/bin:/bin", "HOME": "/tmp"})
        with open_sandbox(spec, level=Level.L1) as sandbox:
            assert sandbox.capabilities.level is Level.L1
            assert sandbox.capabilities.network == "filtered"
            assert not sandbox.capabilities.has_stages
            done = sandbox.run(CommandSpec(argv=("sh", "-c", "pwd; echo $HOME; echo e >&2; exit 3")))
            assert done.exit == Exited(code=3)
            home = done.stdout.prefix.decode().splitlines()[1]
            assert done.stdout.prefix.decode().splitlines()[0] == str(workspace.resolve())
            assert home != "/tmp"
            assert Path(home).is_dir()
            assert done.stderr.prefix == b"e\n"
            assert sandbox.run(CommandSpec(argv=("sh", "-c", "kill -9 $$"))).exit == Signaled(signal=9)
            assert isinstance(sandbox.run(CommandSpec(argv=("no-such-program",))).exit, NotStarted)
            assert sandbox.run(CommandSpec(argv=("yes",), output_bytes=1000)).cause == "output"
            sandbox.run(CommandSpec(argv=("sh", "-c", "sleep 613 > /dev/null 2>&1 &")))
            sandbox.freeze()
            sandbox.resume()
        assert not Path(home).exists()
        with pytest.raises(SandboxLostError):
            sandbox.run(CommandSpec(argv=("true",)))


def test_an_overlay_is_not_silently_left_out(tmp_path: Path) -> None:
    require_sandboxes()
    overlay = OverlayMount(lower=tmp_path, upper=tmp_path / "u", work=tmp_path / "w", target=tmp_path / "t")
    with pytest.raises(LevelMissingError, match="expected a copied workspace"):
        open_sandbox(SandboxSpec(workspace=tmp_path, overlay=overlay), level=Level.L2)
