"""Pilots for tests: the example suite of small contracts, and a pilot on it."""

from __future__ import annotations

import shutil
from pathlib import Path

from repotrial import api

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pilot"


def build_machine(place: Path) -> api.MachineSettings:
    return api.MachineSettings(cache=place / "cache", home=place, variables={})


def write_pilot(place: Path, **changes: str) -> Path:
    """A copy of the example, with a pilot in it; `changes` replace lines of pilot.toml by their key."""
    shutil.copytree(EXAMPLE, place / "example")
    directory = place / "example" / "p1"
    agents = place / "example" / "agents"
    arms = [
        api.PilotArm(name=name, agent=f"script:{agents}/{name}/{{contract}}.sh")
        for name in ("strong", "weak")
    ]
    arms.append(api.PilotArm(name="capitals", agent=f"script:{agents}/capitals.sh"))
    api.init_pilot(place / "example" / "suite.toml", arms, directory)
    edit_pilot(directory, **{"smallest_effect": "0.45", **changes})
    return directory


def edit_pilot(directory: Path, **changes: str) -> None:
    """Replace the values of the first lines with these keys."""
    file = directory / "pilot.toml"
    lines = file.read_text("utf-8").splitlines()
    for key, value in changes.items():
        place = next(place for place, line in enumerate(lines) if line.startswith(f"{key} ="))
        lines[place] = f"{key} = {value}"
    file.write_text("\n".join(lines) + "\n", "utf-8")
