"""`pilot review` on a pilot that was conducted: who is asked about, what is shown, what is kept."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest

import repotrial
from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial._core.errors import EvidenceError, UsageError
from repotrial.run import Stopper
from support.command_line import call, converse
from support.errors import raises_code
from support.harness import require_sandboxes
from support.pilots import build_machine, edit_pilot, write_pilot
from support.viewers import Visitor, find_violations, open_browser, open_viewer, watch_page

SIGNED = """\
#!/bin/bash
sed -i '4s/.*/# by Claude Opus 4.1 (sly) for $0.42\\n# and GPT-5.4-mini\\necho "${text^^}"/' tool.sh
echo left-pad==1.0 > requirements.txt
"""
PRICES = """\
action_type,unit,unit_price,notes
human:minute,minute,1.50,test
"""


def _read_envelopes(directory: Path) -> dict[str, Decimal]:
    status = api.show_pilot(directory, build_machine(directory.parents[1]))
    return {each.name: Decimal(each.spent) for each in status.envelopes}


@pytest.fixture(scope="module")
def conducted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stage 1 of the example with a further arm whose change names its maker, a price and a dependency."""
    require_sandboxes()
    place = tmp_path_factory.mktemp("review")
    directory = write_pilot(place, sample_share="1", reviewers="2", run_usd="1")
    agent = place / "example" / "agents" / "sly.sh"
    agent.write_text(SIGNED, "utf-8")
    (directory / "prices.csv").write_text(PRICES, "utf-8")
    file = directory / "pilot.toml"
    text = file.read_text("utf-8").replace("# prices =", "prices =")
    text = text.replace('name = "weak"', 'name = "sly"').replace('against = "weak"', 'against = "sly"')
    text = text.replace("weak/{contract}.sh", "sly.sh").replace(
        'agent = "script:../agents/sly.sh"', 'agent = "script:../agents/sly.sh"\nauthor_minutes = 20'
    )
    file.write_text(text, "utf-8")
    machine = build_machine(place)
    api.plan_pilot(directory, machine)
    api.freeze_pilot(directory, machine, key_file=place / "key.pem", conducting=[], reason=None, removed={})
    events = api.run_pilot(directory, machine, key_file=place / "key.pem", stopper=Stopper(), jobs=2, until=1)
    assert [event for event in events if isinstance(event, api.RunEnded) and event.fault is not None] == []
    return directory


@pytest.fixture
def pilot(conducted: Path, tmp_path: Path) -> Path:
    shutil.copytree(conducted.parent, tmp_path / "example")
    shutil.copy(conducted.parents[1] / "key.pem", tmp_path)
    return tmp_path / "example" / conducted.name


def _label(case: str, verdict: str = "correct", reviewer: str = "ada", **fields: object) -> api.GivenLabel:
    document = {"case": case, "verdict": verdict, "reviewer": reviewer, "reason": "read it", "minutes": 4}
    return msgspec.convert({**document, **fields}, api.GivenLabel)


def test_doubtful_runs_are_always_asked_about_and_others_at_the_registered_chance(pilot: Path) -> None:
    queue = api.list_review(pilot)
    assert {item.case for item in queue.cases} == {item.case for item in api.list_review(pilot).cases}
    by_kind = {item.kinds: item.chance for item in queue.cases}
    # Two tasks are in stage 1; noop and reference are known before, and no person is asked about them.
    assert len(queue.cases) == 6
    assert by_kind == {("sample",): Decimal(1), ("security", "dependency"): Decimal(1)}
    assert queue.open == 6


def test_without_a_sample_unflagged_runs_are_not_asked_about(pilot: Path) -> None:
    (pilot / "registrations" / "1.json").unlink()
    edit_pilot(pilot, sample_share="0")
    machine = build_machine(pilot.parents[1])
    api.plan_pilot(pilot, machine)
    key = pilot.parents[1] / "key.pem"
    api.freeze_pilot(pilot, machine, key_file=key, conducting=[], reason=None, removed={})
    assert {item.kinds for item in api.list_review(pilot).cases} == {("security", "dependency")}


def test_a_case_shows_task_and_change_without_names_and_prices(pilot: Path) -> None:
    for item in api.list_review(pilot).cases:
        shown = api.show_review(pilot, item.case)
        assert "tool.sh" in shown.statement
        assert "tool.sh" in shown.change
        text = msgspec.json.encode(shown).decode().lower()
        for word in ("claude", "opus", "gpt", "0.42", "sly", "strong", "success", "failure"):
            assert word not in text, word
        assert shown.verdict == ()
    (signed, _) = [item for item in api.list_review(pilot).cases if "dependency" in item.kinds]
    assert "# by [name] [name] ([name]) for [price]" in api.show_review(pilot, signed.case).change


def test_the_verdict_is_shown_when_it_is_asked_for(pilot: Path) -> None:
    case = api.list_review(pilot).cases[0].case
    assert api.show_review(pilot, case, with_verdict=True).verdict[0].startswith("status: ")


def test_a_label_is_added_with_its_chance_and_its_minutes_are_booked_once(pilot: Path) -> None:
    item, *_ = api.list_review(pilot).cases
    before = _read_envelopes(pilot)["total"]
    written = api.write_label(pilot, _label(item.case, "incorrect", failure_mode="acceptance-failure"))
    assert (written.label.chance, written.human_usd) == (item.chance, Decimal("6.00"))
    assert _read_envelopes(pilot)["total"] - before == Decimal("6.00")
    api.write_label(pilot, _label(item.case, minutes=2))
    assert _read_envelopes(pilot)["total"] - before == Decimal("9.00")
    assert api.list_review(pilot).minutes == 6
    assert len((pilot / "labels.jsonl").read_bytes().splitlines()) == 2
    assert api.list_review(pilot, reviewer="ada").open == 5


def test_minutes_of_a_killed_reviewer_are_booked_with_the_next_label(pilot: Path) -> None:
    item, other, *_ = api.list_review(pilot).cases
    ledger = (pilot / "ledger.jsonl").read_bytes()
    before = _read_envelopes(pilot)["total"]
    api.write_label(pilot, _label(item.case))
    (pilot / "ledger.jsonl").write_bytes(ledger)
    api.write_label(pilot, _label(other.case))
    assert _read_envelopes(pilot)["total"] - before == Decimal("12.00")


def test_minutes_of_an_author_enter_the_ledger_once(pilot: Path) -> None:
    assert _read_envelopes(pilot)["total"] == Decimal("30.00")
    lines = (pilot / "journal.jsonl").read_bytes().splitlines()
    booked = [msgspec.json.decode(line)["data"] for line in lines if b'"people"' in line]
    assert booked == [{"arm": "sly", "minutes": "20", "usd": "30"}]


def test_two_reviewers_agree_beyond_chance_or_not(pilot: Path) -> None:
    cases = [item.case for item in api.list_review(pilot).cases]
    assert isinstance(api.list_review(pilot).kappa, NotComputable)
    for place, case in enumerate(cases[:4]):
        api.write_label(pilot, _label(case, "correct" if place < 2 else "incorrect"))
        api.write_label(pilot, _label(case, "correct" if place < 3 else "incorrect", reviewer="bob"))
    assert api.list_review(pilot).kappa == pytest.approx(0.5)


def test_a_third_reviewer_unknown_cases_and_unknown_failure_modes_are_refused(pilot: Path) -> None:
    case = api.list_review(pilot).cases[0].case
    for reviewer in ("ada", "bob"):
        api.write_label(pilot, _label(case, reviewer=reviewer))
    refused = {
        "at most 2 reviewers, as registered": _label(case, reviewer="eve"),
        "expected a case of the queue, found 'case-0'": _label("case-0"),
        "expected a failure mode of": _label(case, failure_mode="bad-luck"),
        "expected a reviewer and a reason": _label(case, reason=" "),
        "minutes: expected 0 or more": _label(case, minutes=-1),
    }
    for words, label in refused.items():
        with pytest.raises(UsageError, match=words):
            api.write_label(pilot, label)
    assert len((pilot / "labels.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("attack", ["edited", "removed"])
def test_labels_that_were_edited_or_removed_are_named(pilot: Path, attack: str) -> None:
    for item in api.list_review(pilot).cases[:3]:
        api.write_label(pilot, _label(item.case))
    file = pilot / "labels.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    edited = [lines[0].replace(b'"correct"', b'"unclear"'), *lines[1:]]
    file.write_bytes(b"".join(edited if attack == "edited" else [lines[0], lines[2]]))
    with pytest.raises(EvidenceError, match=r"labels\.jsonl:2: expected the line that follows"):
        api.list_review(pilot)


def test_people_read_the_queue_and_programs_write_labels(
    capsys: pytest.CaptureFixture[str], pilot: Path
) -> None:
    listed = call(capsys, "pilot", "review", pilot)
    assert listed.status == 0
    assert "6 cases, 6 open" in listed.out
    case = json.loads(call(capsys, "pilot", "review", pilot, "--json").out)["cases"][0]["case"]
    shown = call(capsys, "pilot", "review", pilot, "--case", case)
    assert "change" in shown.out
    half = call(capsys, "pilot", "review", pilot, "--case", case, "--label", "correct")
    assert (half.status, "found no --reviewer, --why, --minutes" in half.err) == (2, True)
    words = ("--reviewer", "ada", "--why", "does it", "--minutes", "3", "--json")
    done = call(capsys, "pilot", "review", pilot, "--case", case, "--label", "correct", *words)
    assert json.loads(done.out)["label"]["verdict"] == "correct"
    assert (
        len(json.loads(call(capsys, "pilot", "review", pilot, "--reviewer", "ada", "--json").out)["cases"])
        == 5
    )


def test_a_terminal_leads_from_case_to_case(pilot: Path) -> None:
    answers = [
        ("does the change do", "x\n"),
        ("expected one of", "cor\n"),
        ("failure mode", "bad-luck\n"),
        ("why", "reads well\n"),
        ("minutes", "\n"),
        ("does the change do", "inc\n"),
        ("failure mode", "\n"),
        ("why", "prints nothing\n"),
        ("minutes", "7\n"),
        ("2 of 6", ""),
        ("does the change do", "leave\n"),
    ]
    ended = converse("pilot", "review", pilot, "--reviewer", "ada", answers=answers)
    assert ended.status == 0, ended.out
    (label,) = [
        msgspec.json.decode(line)["label"] for line in (pilot / "labels.jsonl").read_bytes().splitlines()
    ]
    assert (label["verdict"], label["minutes"], label["reason"]) == ("incorrect", 7, "prints nothing")


def test_a_pilot_under_way_shows_progress_and_a_band_in_the_viewer_and_no_verdict_in_lists(
    pilot: Path, tmp_path: Path
) -> None:
    with open_viewer(pilot, tmp_path) as served:
        visitor = Visitor(served)
        listed = visitor.wait_for("/", "until the pilot ends")
        assert "under way" in visitor.ask("/pilots")[1]
        (key,) = set(re.findall(r"/pilot/([0-9a-f]+)", visitor.ask("/pilots")[1]))
        page = visitor.ask(f"/pilot/{key}")[1]
        assert "that is always valid" in page
        assert visitor.ask(f"/pilot/{key}/page")[0] == 403
        for text in (listed, page):
            assert 'class="tag good">success' not in text
            assert 'class="tag bad">failure' not in text
        runs = len(list((pilot / "runs").glob("*-a1")))
        assert f"{runs} runs" in listed
        for query in ("status=success", "status=failure", "q=exit+code", "q=failure"):
            assert "No run fits" in visitor.ask(f"/?{query}")[1], query
        by_verdict = re.findall(r'id="r([0-9a-f]+)"', visitor.ask("/?sort=status&way=up")[1])
        assert by_verdict == re.findall(r'id="r([0-9a-f]+)"', visitor.ask("/?sort=score")[1])


def test_a_label_is_given_in_a_browser_case_by_case(pilot: Path, tmp_path: Path) -> None:
    with (
        open_browser() as browser,
        open_viewer(pilot, tmp_path) as served,
        watch_page(browser, served.address) as watched,
    ):
        page = watched.page
        page.goto(served.entrance)
        page.get_by_role("link", name="Pilots").click()
        page.locator("tr[data-row] a").first.click()
        assert find_violations(page) == []
        page.get_by_role("link", name=re.compile("^Review: ")).click()
        page.get_by_label("Reviewer").fill("ada")
        page.keyboard.press("Enter")
        page.get_by_text("not looked at yet by ada").wait_for()
        cases = page.locator("tr[data-row]").count()
        page.get_by_role("link", name="Begin: one case after the other").click()
        first = page.locator("h1 .soft").inner_text()
        assert find_violations(page) == []
        assert "strong" not in page.content()
        page.keyboard.press("2")
        page.get_by_label("Why").fill("it prints the wrong letters")
        page.get_by_label("Minutes that it took").fill("3")
        page.get_by_role("button", name="Give the label").click()
        page.get_by_text(f"{cases - 1} not looked at yet").wait_for()
        assert page.locator("h1 .soft").inner_text() != first, "the next case"
    (written,) = (pilot / "labels.jsonl").read_text().splitlines()
    label = json.loads(written)["label"]
    assert (label["reviewer"], label["verdict"], label["minutes"]) == ("ada", "incorrect", 3)
    assert first.endswith(label["case"])
    assert label["is_verdict_seen"] is False


def test_a_label_after_a_look_at_the_verdict_says_so_and_a_forged_one_is_refused(
    pilot: Path, tmp_path: Path
) -> None:
    case = api.list_review(pilot).cases[0].case
    with open_viewer(pilot, tmp_path) as served:
        visitor = Visitor(served)
        visitor.find_run()
        (key,) = set(re.findall(r"/pilot/([0-9a-f]+)", visitor.ask("/pilots")[1]))
        path = f"/pilot/{key}/review/{case}"
        assert "Hidden: a label is worth more without it" in visitor.ask(path)[1]
        form = {"verdict": "correct", "reviewer": "ada", "reason": "read it", "minutes": "2"}
        assert visitor.ask(path, method="POST", body=urlencode(form))[0] == 403
        page = visitor.ask(f"{path}?reviewer=ada&verdict=1")[1]
        assert "Your label will say that you saw this" in page
        (own,) = re.findall(r'name="key" value="([0-9a-f]+)"', page)
        refused = visitor.ask(path, method="POST", body=urlencode({**form, "key": own, "reason": " "}))
        assert (refused[0], "expected a reviewer and a reason" in refused[1]) == (409, True)
        assert visitor.ask(path, method="POST", body=urlencode({**form, "key": own}))[0] == 303
    (written,) = (pilot / "labels.jsonl").read_text().splitlines()
    assert json.loads(written)["label"]["is_verdict_seen"] is True


def test_a_pilot_that_has_not_ended_is_not_analyzed(capsys: pytest.CaptureFixture[str], pilot: Path) -> None:
    ended = call(capsys, "pilot", "analyze", pilot)
    assert (ended.status, "pilot-unfinished" in ended.err) == (2, True)


def test_a_pilot_under_way_gives_python_its_plan_and_refuses_outcomes(pilot: Path) -> None:
    opened = repotrial.open_pilot(pilot)
    planned = opened.planned()
    assert 0 < sum(row["is_conducted"] for row in planned) < len(planned)
    assert not {"status", "score", "why", "directory"} & set(planned[0])
    for ask in (opened.rows, lambda: opened.runs, lambda: opened.analysis):
        with raises_code("peek-refused"):
            ask()
