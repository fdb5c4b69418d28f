"""Pictures of the documentation, in a real browser: the viewer, and pages that are files.

`make pictures` calls it. The runs are those that tests keep, and a pilot that is conducted anew on the
example's contracts; the same runs give the same pages, up to times, fonts and the browser's release.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, ViewportSize

from support.viewers import open_browser, open_viewer, watch_page

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("repotrial")
RUNS = ROOT / "tests" / "data" / "golden-runs"
IMAGES = ROOT / "docs" / "images"
DESKTOP = {"width": 1200, "height": 760}
PHONE = {"width": 390, "height": 760}
TALL: ViewportSize = {"width": 1200, "height": 1000}


class _Picture(NamedTuple):
    name: str
    start: str
    """Where to begin."""
    clicks: tuple[str, ...]
    settings: dict[str, Any]


PICTURES = (
    _Picture("viewer-list", "", (), {"viewport": DESKTOP, "color_scheme": "light"}),
    _Picture(
        "viewer-run",
        "?q=tool-call-cap",
        ("tr[data-row] a", "nav >> text=Conversation"),
        {"viewport": DESKTOP, "color_scheme": "dark"},
    ),
    _Picture(
        "viewer-phone",
        "?status=failure",
        (),
        {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2},
    ),
)


def _call(*words: str, cwd: Path, codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run([COMMAND, *words], cwd=cwd, check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in codes:
        raise SystemExit(f"repotrial {' '.join(words)}: exit code {done.returncode}")


def _make_pilot_page(place: Path) -> Path:
    """The example's pilot, from its suite to its page."""
    pilot = place / "pilot"
    shutil.copytree(ROOT / "examples" / "pilot", pilot)
    arms = [f"{arm}=script:agents/{arm}/{{contract}}.sh" for arm in ("strong", "weak")]
    _call("pilot", "init", "suite.toml", "--arm", arms[0], "--arm", arms[1], "--out", "p", cwd=pilot)
    plan = pilot / "p" / "pilot.toml"
    told = plan.read_text("utf-8")
    plan.write_text(told.replace("smallest_effect = 0.20", "smallest_effect = 0.45"), "utf-8")
    for verb in ("plan", "freeze"):
        _call("pilot", verb, "p", cwd=pilot)
    _call("pilot", "run", "p", cwd=pilot, codes=(0, 1))  # 1: stage 3 is refused for want of power
    _call("report", "build", "p", "--out", "page.html", cwd=pilot)
    return pilot / "page.html"


def _make_run_page(place: Path) -> Path:
    _call("run", "page", str(RUNS / "tillbook-state-cheat"), "--out", "run.html", cwd=place)
    return place / "run.html"


def _take_files(place: Path, browser: Browser) -> None:
    for name, file, anchor in (
        ("pilot-page", _make_pilot_page(place), None),
        ("pilot-figures", place / "pilot" / "page.html", "#p1-success"),
        ("run-page", _make_run_page(place), None),
    ):
        page = browser.new_page(viewport=TALL, color_scheme="light")
        page.goto(file.as_uri())
        if anchor is not None:
            page.locator(anchor).scroll_into_view_if_needed()
            page.evaluate("name => document.querySelector(name).scrollIntoView()", anchor)
        page.screenshot(path=IMAGES / f"{name}.png")
        print(f"docs/images/{name}.png")
        page.close()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pictures-") as made:
        place = Path(made)
        shutil.copytree(RUNS, place / "runs")
        with open_viewer(place / "runs", place) as served, open_browser() as browser:
            for picture in PICTURES:
                with watch_page(browser, served.address, **picture.settings) as watched:
                    page = watched.page
                    page.goto(served.entrance)
                    page.get_by_text("17 runs").wait_for()
                    page.goto(served.address + picture.start)
                    for click in picture.clicks:
                        page.click(click)
                    page.locator("#told", has_text="live").wait_for()
                    file = IMAGES / f"{picture.name}.png"
                    page.screenshot(path=file)
                    print(file.relative_to(ROOT))
            _take_files(place, browser)
    return 0


if __name__ == "__main__":
    sys.exit(main())
