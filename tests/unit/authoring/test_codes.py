from __future__ import annotations

import re
from pathlib import Path

import repotrial.authoring


def test_every_code_that_drafting_uses_is_described() -> None:
    package = Path(repotrial.authoring.__file__).parent
    sources = [path.read_text() for path in package.rglob("*.py") if path.name != "_codes.py"]
    used = {code for source in sources for code in re.findall(r'"(draft-[a-z-]+)"', source)}
    page = (Path(__file__).parents[3] / "docs/reference/lint.md").read_text("utf-8")
    assert used == set(re.findall(r"^\| `(draft-[a-z-]+)` \|", page, re.MULTILINE))
