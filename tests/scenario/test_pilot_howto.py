"""The how-to about pilots, followed word by word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.pilots import EXAMPLE

PAGE = EXAMPLE.parents[1] / "docs" / "how-to" / "run-a-pilot.md"
BLOCK = re.compile(r"^```(\w+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_leads_from_two_contracts_to_a_frozen_plan(tmp_path: Path) -> None:
    place = tmp_path / "pilot"
    shutil.copytree(EXAMPLE, place)
    binary = str(Path(sys.executable).parent)
    variables = {**os.environ, "PATH": f"{binary}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path)}
    commands = 0
    for kind, note, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "toml":
            file = place / note.removeprefix("file=")
            file.parent.mkdir()
            file.write_text(text, "utf-8")
            continue
        for line in text.splitlines():
            done = subprocess.run(
                ["bash", "-c", line.removeprefix("$ ")],
                cwd=place,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode != 0) == (note == "fails"), line + done.stdout + done.stderr
            commands += 1
    assert commands == 7
    assert (place / "my-pilot" / "registrations" / "1.json").is_file()
