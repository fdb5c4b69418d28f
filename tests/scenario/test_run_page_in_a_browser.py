"""The page as a real browser builds it; skipped where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from repotrial.report import build_run_page
from support.score_runs import FAILED, PATCH, write_run

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)
DEADLINE_SECONDS = 300


def load_in_browser(browser: str, page: Path, home: Path) -> str:
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
        page.as_uri(),
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
