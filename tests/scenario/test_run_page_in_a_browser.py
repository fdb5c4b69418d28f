"""Pages as a real browser builds them; skipped where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from repotrial import api
from repotrial.report import build_run_page
from support.hostile import ATTACKS
from support.score_runs import FAILED, PATCH, write_run

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)
DEADLINE_SECONDS = 300


def load_in_browser(browser: str, page: Path, home: Path, state: str = "") -> str:
    """The document after everything in it had its chance to run."""
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--user-data-dir={home}",
        "--dump-dom",
        page.as_uri() + state,
    ]
    variables = {**os.environ, "HOME": str(home)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS, env=variables
    )
    if "<main>" not in done.stdout:
        pytest.skip(f"the browser does not work here: {done.stderr[-300:]}")
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_finds_the_verdict_and_runs_nothing(tmp_path: Path) -> None:
    assert BROWSER is not None
    attack = b"</td></table><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
    patch = PATCH.replace(b"zweite", attack)
    run = write_run(tmp_path / "run", {"unit": FAILED}, patch=patch)
    page = tmp_path / "page.html"
    page.write_text(build_run_page(run), encoding="utf-8")
    built = load_in_browser(BROWSER, page, tmp_path / "home")
    assert "<title>Failure: Wide characters</title>" in built
    assert "<script" not in built
    assert "<img" not in built
    assert 'id="reproduce"' in built, "the page is whole"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_report_is_filtered_and_sorted_as_its_address_says_and_runs_nothing_else(tmp_path: Path) -> None:
    assert BROWSER is not None
    for number, outcomes in enumerate(({}, {"unit": FAILED}, {"unit": FAILED})):
        name = f"{number}{ATTACKS['broken-attribute'].replace('/', '_')}"
        write_run(tmp_path / "runs" / name, outcomes, run_id=f"run{number}", replicate=number)
    page = tmp_path / "page.html"
    api.build_report([tmp_path / "runs"], api.ReportRequest(out=page))
    built = load_in_browser(BROWSER, page, tmp_path / "home", "#sort=2&way=down&status=failure")
    assert "<title>Agents on trial: 3 runs on 1 contract</title>" in built, "no script of a run has run"
    assert "2 of 3 runs, sorted by rep, descending" in built
    rows = re.findall(r'<tr id="run(\d)" tabindex="-1"( hidden="")?>', built)
    assert [(number, bool(hidden)) for number, hidden in rows] == [("3", False), ("2", False), ("1", True)]
