from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.sandbox import CommandSpec, Level, OverlayMount, SandboxSpec, open_sandbox
from repotrial.sandbox._identity import find_identity
from repotrial.sandbox._open import LevelMissingError, UnsandboxedError
from repotrial.sandbox._plain import UnsandboxedWarning
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


@pytest.mark.parametrize("level", [Level.L3C, Level.L1])
def test_a_level_without_a_back_end_is_not_replaced_by_a_weaker_one(tmp_path: Path, level: Level) -> None:
    with pytest.raises(LevelMissingError, match=level.value):
        open_sandbox(SandboxSpec(workspace=tmp_path), level=level)


def test_an_overlay_is_not_silently_left_out(tmp_path: Path) -> None:
    require_sandboxes()
    overlay = OverlayMount(lower=tmp_path, upper=tmp_path / "u", work=tmp_path / "w", target=tmp_path / "t")
    with pytest.raises(LevelMissingError, match="expected a copied workspace"):
        open_sandbox(SandboxSpec(workspace=tmp_path, overlay=overlay), level=Level.L2)
