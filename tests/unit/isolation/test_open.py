from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from repotrial._core.words import OFFERED_LEVELS, RETIRED_LEVELS, Level
from repotrial.contract import Environment
from repotrial.isolation import Layer, Missing, OverlayMount, SandboxSpec, find_back_end, open_sandbox
from repotrial.isolation._levels._back_ends.container import find_engine, open_container
from repotrial.machine import execute_probe
from support.errors import raises_code
from support.harness import require_sandboxes


@pytest.mark.parametrize("level", sorted(RETIRED_LEVELS))
def test_a_retired_level_is_read_and_refused_with_the_next_one_named(tmp_path: Path, level: Level) -> None:
    environment = msgspec.convert({"image": "host", "isolation": level.value}, Environment)
    assert environment.isolation is level
    with raises_code("isolation-retired", match=level) as refused:
        open_sandbox(SandboxSpec(workspace=tmp_path), level=level)
    assert "L2, the next stronger level" in refused.value.hint
    with raises_code("isolation-retired"):
        execute_probe(level)


@pytest.mark.parametrize("level", OFFERED_LEVELS)
def test_every_offered_level_has_a_back_end_that_promises_every_layer(level: Level) -> None:
    back_end = find_back_end(level)
    assert back_end.level is level
    assert back_end.promises == frozenset(get_args(Layer))


def test_a_level_that_is_not_there_is_not_replaced_by_a_weaker_one(tmp_path: Path) -> None:
    missing = find_engine(tmp_path / "none")
    assert isinstance(missing, Missing)
    with raises_code("isolation-level", match="L3c: no container engine listens at") as refused:
        open_container(SandboxSpec(workspace=tmp_path), missing)
    assert "install Docker or podman" in refused.value.hint


def test_an_overlay_is_not_silently_left_out(tmp_path: Path) -> None:
    require_sandboxes()
    overlay = OverlayMount(lower=tmp_path, upper=tmp_path / "u", work=tmp_path / "w", target=tmp_path / "t")
    with raises_code("isolation-level", match="expected a copied workspace"):
        open_sandbox(SandboxSpec(workspace=tmp_path, overlay=overlay), level=Level.L2)
