"""What an agent writes to take over a page, by the name of the attack: in the viewer and on report pages.

It is shown as what it is; nothing executes, nothing hides, and nothing looks like a verdict of ours.
"""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from repotrial._core.display import escape_unprintable
from repotrial.report import build_run_page
from repotrial.signing import SigningKey
from repotrial.trace import Conversation, Failed, RawMessage, TestIds
from support.hostile import ATTACKS
from support.pages import read_report
from support.score_runs import PATCH, UNIT, ScoreRun
from support.viewers import Visitor, open_browser, open_viewer, watch_page

HUGE = "ten-megabyte-line"
NAMES = (*ATTACKS, HUGE)
_LINE = 10 * 1024**2


def _find_text(name: str) -> str:
    return "<b>x" * (_LINE // 4) if name == HUGE else ATTACKS[name]


def write_hostile_run(root: Path, texts: dict[str, str]) -> Path:
    """A failed run that carries the texts wherever an agent can put one."""
    run = ScoreRun(root, patch=PATCH.replace(b"zweite", " ".join(texts.values()).encode()))
    talk = Conversation(run.builder.writer, name="main")
    for name, text in texts.items():
        message = json.dumps({"role": "user", "content": f"{name} {text}"}).encode()
        talk.append([RawMessage("user", message)], model="m-1", request=b"{}")
        run.builder.tool(arguments=f"{name} {text[:20_000]}", output=text[:20_000].encode())
        run.builder.program(stdout=text[:20_000].encode(), stderr=b"")
        run.builder.alert(text=text[:2000])
    run.end_acting(rationale=" ".join(texts.values())[:2000])
    run.apply()
    for check in run.contract.checks:
        if check is UNIT:
            summary = " ".join(texts.values())[:2000]
            run.check(check, Failed(summary=summary), failing=TestIds.build([summary[:500], "test_b"]))
        else:
            run.check(check)
    return run.finish(key=SigningKey.load(root.parents[1] / "key.pem"))


class _Markup(HTMLParser):
    """Elements, attributes and text of a page, as a browser's parser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_page(page: str) -> _Markup:
    """Nothing in it but what our templates write."""
    found = _Markup(page)
    assert not {"img", "iframe", "object", "embed", "base", "animate"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    links = [value for name, value in found.attributes if name in {"href", "src", "action"}]
    assert all(link.startswith(("/", "#", "data:,")) for link in links), links
    assert all(character.isprintable() or character in "\n\t" for character in page)
    return found


@pytest.fixture(scope="module", params=NAMES)
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    name = str(request.param)
    place = tmp_path_factory.mktemp("hostile")
    return name, write_hostile_run(place / "runs" / "one", {name: _find_text(name)})


def test_on_the_page_of_a_run_it_stays_text(attacked: tuple[str, Path]) -> None:
    name, run = attacked
    page = build_run_page(run)
    found = check_page(page)
    assert found.tags.count("script") == 1, "our own"
    assert read_report(page).scripts, "by the digest that the policy names"
    assert found.tags.count("style") == 1
    assert page.count('id="verdict"') == 1
    assert len(page) < 2_000_000
    shown = escape_unprintable(_find_text(name))[:60].strip()
    assert shown in " ".join(found.texts), "it is shown as what it is"


def test_in_the_viewer_it_stays_text(attacked: tuple[str, Path]) -> None:
    name, run = attacked
    with open_viewer(run.parent, run.parent.parent) as served:
        visitor = Visitor(served)
        path = visitor.find_run()
        views = (
            "",
            "?view=conversation",
            "?event=4",
            "?event=5",
            "?event=6",
            "?find=%3C",
            "?class=oversight",
        )
        for page in (visitor.ask("/")[1], *(visitor.ask(path + view)[1] for view in views)):
            found = check_page(page)
            assert found.tags.count("script") == 1, "our own"
            assert "style" not in found.tags
            assert 'class="banner' not in page
            assert len(page) < 2_000_000
        shown = escape_unprintable(_find_text(name))[:60].strip()
        assert shown in " ".join(check_page(visitor.ask(f"{path}?view=conversation")[1]).texts)


@pytest.fixture(scope="module")
def every_attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("every")
    return write_hostile_run(place / "runs" / "one", ATTACKS)


def test_in_a_real_browser_nothing_executes_nothing_leaves_and_the_verdict_stays_in_sight(
    every_attack: Path, tmp_path: Path
) -> None:
    with (
        open_browser() as browser,
        open_viewer(every_attack.parent, tmp_path) as served,
        watch_page(browser, served.address) as watched,
    ):
        page = watched.page
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.goto(served.entrance)
        page.locator("tr[data-row] a").first.click()
        run = page.url.partition("?")[0]
        for view in ("", "?view=conversation", "?event=4", "?event=5"):
            page.goto(run + view)
            assert page.title().startswith("failure: "), "no script of a run has run"
            assert page.locator(".verdict").is_visible()
            assert page.locator(".verdict .tag").inner_text() == "failure"
            assert page.locator(".banner").count() == 0, "no banner but on the page of the run"
        page.goto(f"{run}/page")
        assert page.title().startswith("Failure: ")
        assert page.locator("#verdict").count() == 1
        assert page.locator("#verdict").is_visible()
        assert page.locator("#verdict .word").inner_text().endswith("Failure")
        assert dialogs == []
