"""The viewer as a person uses it, in a real browser: list, run, long trace, keys, live, a decision.

Each page is watched: no error on its console, and no request to anywhere but the viewer. Skipped, with the
reason, where there is no browser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.signing import SigningKey
from repotrial.trace import CheckOutcome, Conversation, RawMessage
from support.score_runs import FAILED, HUNG, PASSED, ScoreRun, write_run
from support.viewers import (
    DEADLINE_SECONDS,
    Served,
    Watched,
    find_violations,
    open_browser,
    open_viewer,
    watch_page,
)

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=DEADLINE_SECONDS * 1000)

CALLS = 1_500
PHONE = {"width": 390, "height": 844}


def _write_conversation(root: Path) -> None:
    run = ScoreRun(root, run_id="talk", replicate=7)
    talk = Conversation(run.builder.writer, name="main")
    for number in range(3):
        talk.append(
            [RawMessage("user", json.dumps({"role": "user", "content": f"Question {number}"}).encode())],
            model="m-1",
            request=b"{}",
        )
    run.builder.tool(arguments=json.dumps({"command": "ls -la"}), output=b"a b c\n")
    run.end_acting()
    run.finish()


def _write_all(runs: Path) -> None:
    outcomes: tuple[CheckOutcome, ...] = (PASSED, FAILED, FAILED, HUNG)
    for number, outcome in enumerate(outcomes):
        write_run(runs / f"short-{number}", {"unit": outcome}, run_id=f"short{number}", replicate=number)
    long = ScoreRun(runs / "long", run_id="long", replicate=9)
    for number in range(CALLS):
        long.builder.tool(arguments=f"call number {number}", output=b"")
    long.end_acting()
    long.finish()
    _write_conversation(runs / "talk")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("viewer")
    _write_all(place / "runs")
    with open_viewer(place / "runs", place) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with open_browser() as found:
        yield found


@pytest.fixture
def watched(browser: object, served: Served) -> Iterator[Watched]:
    with watch_page(browser, served.address) as found:  # type: ignore[arg-type]
        found.page.goto(served.entrance)
        expect(found.page.locator("#counted")).to_contain_text("6 runs")
        yield found


def _open_run(watched: Watched, name: str) -> None:
    watched.page.goto(f"{watched.own}?q={name}")
    watched.page.locator("tr[data-row] a").first.click()


def test_the_list_is_filtered_searched_and_sorted_and_its_address_says_so(watched: Watched) -> None:
    page = watched.page
    page.get_by_label("Verdict").select_option("failure")
    expect(page.locator("#counted")).to_contain_text("2 runs of 6")
    assert "status=failure" in page.url
    page.keyboard.press("/")
    page.keyboard.type("short-1")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert page.url.removeprefix(watched.own) == "?q=short-1&status=failure"
    page.goto(f"{watched.own}?sort=replicate&way=up")
    assert page.locator("td[data-label=rep]").all_text_contents() == ["0", "1", "2", "3", "7", "9"]
    page.get_by_role("link", name="rep", exact=True).click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("rep")


def test_keys_lead_through_a_list_into_a_run_and_from_run_to_run(watched: Watched) -> None:
    page = watched.page
    page.goto(f"{watched.own}?sort=replicate&way=up")
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("replicate 1")
    expect(page.locator(".eyebrow")).to_contain_text("2 of 6")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_contain_text("replicate 2")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("list="))
    expect(page.locator("h1")).to_contain_text("replicate 1")
    expect(page.locator(".verdict")).to_contain_text("failure")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("tr.detail")).to_contain_text('"phase": "brief"')
    assert page.url.endswith("#e1")


def test_a_long_trace_opens_at_once_jumps_and_is_searched(watched: Watched) -> None:
    page = watched.page
    _open_run(watched, "long")
    expect(page.locator("tr[data-row]")).to_have_count(100)
    page.get_by_role("link", name="last", exact=True).click()
    expect(page.locator("#events")).to_contain_text("termination")
    page.get_by_label("Go to event").fill("1034")
    page.get_by_role("button", name="Go").click()
    expect(page.locator("#e1034")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("NUMBER 1400")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.locator("tr[data-row]")).to_contain_text("call number 1400")
    page.get_by_label("Find in events").fill("")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=re.compile("^course")).click()
    expect(page.locator("#events")).to_contain_text("phase-changed")
    expect(page.locator("#events")).not_to_contain_text("tool-invocation")


def test_a_link_into_a_run_shows_what_its_sender_saw(watched: Watched) -> None:
    page = watched.page
    _open_run(watched, "long")
    page.goto(f"{page.url.partition('?')[0]}?class=conversation&at=200&event=207#e207")
    first = page.locator("main").inner_text()
    page.goto("about:blank")
    page.go_back()
    expect(page.locator("tr.detail")).to_contain_text("The event as recorded")
    assert page.locator("main").inner_text() == first


def test_a_conversation_reads_as_one(watched: Watched) -> None:
    page = watched.page
    _open_run(watched, "talk")
    page.get_by_role("link", name="Conversation", exact=True).click()
    expect(page.locator(".turn")).to_have_count(4)
    expect(page.locator(".turn").nth(1)).to_contain_text("Question 1")
    call = page.locator(".turn.call")
    expect(call.locator("pre")).to_be_hidden()
    call.focus()
    page.keyboard.press("Enter")
    expect(call.locator("pre")).to_be_visible()


def test_the_whole_page_of_a_run_is_the_reports_own(watched: Watched) -> None:
    _open_run(watched, "short-1")
    watched.page.get_by_role("link", name="Verdict, change and evidence").click()
    expect(watched.page.locator("#verdict")).to_contain_text("Failure")
    assert find_violations(watched.page) == []
    assert (
        watched.page.locator(".banner").evaluate("(item) => getComputedStyle(item).borderLeftWidth") == "8px"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: object, served: Served, scheme: str) -> None:
    with watch_page(browser, served.address, color_scheme=scheme, viewport=PHONE) as watched:  # type: ignore[arg-type]
        page = watched.page
        page.goto(served.entrance)
        assert find_violations(page) == []
        _open_run(watched, "talk")
        assert find_violations(page) == []
        page.goto(f"{page.url.partition('?')[0]}?event=5#e5")
        expect(page.locator("tr.detail")).to_be_visible()
        assert find_violations(page) == []
        page.goto(f"{page.url.partition('?')[0]}?view=conversation")
        assert find_violations(page) == []
        page.set_viewport_size({"width": 320, "height": 600})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, (
            "nothing is wider than the screen"
        )


def test_a_run_under_way_grows_on_the_page_and_a_new_one_appears_in_the_list(
    browser: object, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with (
        open_viewer(runs, tmp_path) as served,
        watch_page(browser, served.address) as watched,  # type: ignore[arg-type]
    ):
        page = watched.page
        page.goto(served.entrance)
        expect(page.locator("#list")).to_contain_text("There is no run here yet")
        run = ScoreRun(runs / "live", run_id="live")
        run.builder.writer.flush()
        expect(page.locator("tr[data-row]")).to_have_count(1)
        expect(page.locator("tr[data-row]")).to_contain_text("running")
        page.locator("tr[data-row] a").first.click()
        expect(page.locator("#told")).to_have_text("live")
        expect(page.locator("tr[data-row]")).to_have_count(4)
        run.builder.tool(arguments="a call that came later")
        run.builder.writer.flush()
        expect(page.locator("#events")).to_contain_text("a call that came later")
        run.end_acting()
        run.finish(key=SigningKey.load(tmp_path / "key.pem"))
        expect(page.locator("#head")).not_to_contain_text("running")


def test_an_escalation_is_answered_with_a_name_and_a_reason(browser: object, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = ScoreRun(runs / "one")
    run.builder.alert(text="rm -rf /srv")
    run.builder.writer.flush()
    inbox = runs / ".inbox" / "one"
    inbox.mkdir(parents=True)
    (inbox / "question.json").write_text("{}\n")
    with (
        open_viewer(runs, tmp_path) as served,
        watch_page(browser, served.address) as watched,  # type: ignore[arg-type]
    ):
        page = watched.page
        page.goto(served.entrance)
        page.get_by_role("link", name="1 waits for a decision").click()
        page.locator("tr[data-row] a").first.click()
        question = page.get_by_role("region", name="This run waits for your decision")
        expect(question).to_contain_text("rm -rf /srv")
        assert find_violations(page) == []
        expect(page.get_by_label("Your name")).to_have_value("tester")
        page.get_by_label("Your name").fill("Ann")
        page.get_by_label("Why").fill("it is a scratch directory")
        page.get_by_role("button", name="Let it go on").click()
        page.wait_for_url(re.compile("/run/[0-9a-f]+$"))
        given = json.loads((inbox / "answer.json").read_text())
        assert (given["is_allowed"], given["operator"], given["text"]) == (
            True,
            "Ann",
            "it is a scratch directory",
        )
        (inbox / "answer.json").unlink()
        (inbox / "question.json").unlink()
        expect(question).to_have_count(0)
    run.builder.writer.close()
