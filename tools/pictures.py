"""Pictures of the documentation: the viewer on recorded runs, in a real browser. `make pictures` calls it.

The runs are those that tests keep; the same runs give the same pages, up to fonts and the browser's release.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from support.viewers import open_browser, open_viewer, watch_page

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "tests" / "data" / "golden-runs"
IMAGES = ROOT / "docs" / "images"
DESKTOP = {"width": 1200, "height": 760}
PHONE = {"width": 390, "height": 760}


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
