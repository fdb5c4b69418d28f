"""Pages as a real browser builds them; skipped where there is none."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from repotrial import api
from repotrial.report import build_run_page
from repotrial.trace import Conversation, RawMessage
from support.hostile import ATTACKS
from support.score_runs import FAILED, PASSED, PATCH, ScoreRun, write_run
from support.trial_tables import draw_trials, write_table
from support.viewers import find_violations, open_browser, watch_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=60_000)
PHONE = {"width": 390, "height": 844}
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
    assert built.count("<script") == 1, "our own, by its digest"
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


def _write_talk(root: Path) -> Path:
    """A run of an agent that asks a model, and calls a tool."""
    run = ScoreRun(root, run_id="talk")
    talk = Conversation(run.builder.writer, name="main")
    first = json.dumps({"role": "user", "content": "Please repair the counter."}).encode()
    talk.append([RawMessage("user", first)], model="m-1", request=b"{}")
    run.builder.tool(arguments=json.dumps({"command": "ls -la"}), output=b"a b c\n")
    run.end_acting()
    run.apply()
    for check in run.contract.checks:
        run.check(check, FAILED if check.id == "unit" else PASSED)
    return run.finish()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    _write_talk(place / "runs" / "talk")
    write_run(place / "runs" / "good", run_id="good", replicate=1)
    api.build_report([place / "runs"], api.ReportRequest(out=place / "set.html", has_run_pages=True))
    table = write_table(place / "trials.csv", draw_trials({"a": 2.0, "b": 0.0}, tasks=12))
    api.build_report([table], api.ReportRequest(out=place / "table.html"))
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


def _find_page(pages: Path, name: str) -> Path:
    return next((pages / "set-runs").glob(f"*-{name}.html"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_pages_that_are_files(browser: Any, pages: Path, scheme: str) -> None:
    for page in (pages / "set.html", pages / "table.html", _find_page(pages, "talk")):
        with watch_page(browser, page.as_uri(), color_scheme=scheme, viewport=PHONE) as watched:
            watched.page.goto(page.as_uri())
            assert find_violations(watched.page) == [], page.name
            width = watched.page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE["width"], f"{page.name} is wider than the screen"


def test_a_conversation_on_a_page_is_searched_and_its_classes_hide_as_the_address_says(
    browser: Any, pages: Path
) -> None:
    own = _find_page(pages, "talk").as_uri()
    with watch_page(browser, pages.as_uri()) as watched:
        page = watched.page
        page.goto(own)
        turns = page.locator("#conversation li.turn:not([hidden])")
        expect(turns.filter(has_text="Please repair the counter.")).to_have_count(1)
        before = turns.count()
        page.locator("#conversation .tools label", has_text="user").locator("input").uncheck()
        expect(turns).to_have_count(before - 1)
        assert "hide-turns=user" in page.url
        page.locator("a[href='#timeline']").first.click()
        page.wait_for_url("**hide-turns=user**")
        assert "at=timeline" in page.url, "a place does not drop what was chosen"
        page.goto("about:blank")
        page.goto(f"{own}#find-events=patch-application&hide-turns=user")
        expect(turns).to_have_count(before - 1)
        expect(page.locator("tr.event:not([hidden])")).to_have_count(1)


def test_keys_lead_through_turns_and_from_run_to_run(browser: Any, pages: Path) -> None:
    with watch_page(browser, pages.as_uri()) as watched:
        page = watched.page
        page.goto(_find_page(pages, "talk").as_uri())
        page.keyboard.press("j")
        expect(page.locator("li.turn").first).to_be_focused()
        page.keyboard.press("/")
        expect(page.locator("#conversation input[type=search]")).to_be_focused()
        page.keyboard.press("Escape")
        here = page.url
        step = "ArrowRight" if page.locator("a[rel=next]").count() else "ArrowLeft"
        page.keyboard.press(step)
        page.wait_for_url(lambda url: url != here)
        expect(page.locator("#verdict")).to_contain_text("Success")


def test_a_figure_is_saved_as_a_drawing_and_as_numbers(browser: Any, pages: Path) -> None:
    with watch_page(browser, pages.as_uri()) as watched:
        page = watched.page
        page.goto((pages / "table.html").as_uri())
        figure = page.locator("figure#rates")
        with page.expect_download() as saved:
            figure.get_by_text("Save as SVG").click()
        drawing = Path(saved.value.path()).read_text("utf-8")
        assert saved.value.suggested_filename == "rates.svg"
        assert ET.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"
        assert "--k0" in drawing, "its colors come with it"
        with page.expect_download() as saved:
            figure.get_by_text("Save numbers as CSV").click()
        rows = list(csv.DictReader(Path(saved.value.path()).read_text("utf-8").splitlines()))
        assert [row["note"] for row in rows] == page.locator("figure#rates td:last-child").all_text_contents()
