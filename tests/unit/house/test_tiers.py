"""`tools/test_all.sh`: a part that fails is in the table, and the others are tried all the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "test_all.sh"
PARTS = ["lint", "layers", "types", "all-unit", "all-adversarial", "all-scenario", "reached", "mutants"]


@pytest.mark.parametrize(("failing", "status"), [("types", 1), ("reached", 1), ("nothing", 0)])
def test_every_part_is_tried_and_told(tmp_path: Path, failing: str, status: int) -> None:
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "made $2"\n[ "$2" != {failing} ]\n')
    make.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == status
    said, _, table = done.stdout.partition("== seconds of each part")
    assert said.split() == [word for part in PARTS for word in ("made", part)]
    rows = [line.split() for line in table.splitlines()[1:]]
    assert [(name, word) for name, _, word in rows] == [
        (part, "FAILED" if part == failing else "held") for part in PARTS
    ]
