"""A viewer that serves a directory for the time of a test, and a browser to look at it with."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from repotrial import api
from support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)
DEADLINE_SECONDS = 60
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Served:
    """A running viewer."""

    address: str
    token: str

    @property
    def entrance(self) -> str:
        return f"{self.address}?token={self.token}"


@contextmanager
def open_viewer(root: Path, place: Path) -> Iterator[Served]:
    """Serve a directory, until the end of the block."""
    ready, ended = threading.Event(), threading.Event()
    found: list[Served] = []
    failed: list[BaseException] = []

    def tell(guard: api.ViewerGuard) -> None:
        found.append(Served(guard.address, guard.token))
        ready.set()

    def serve() -> None:
        machine = api.MachineSettings(cache=place / "cache", home=place, variables={})
        settings = api.ViewerSettings(root=root, cache=machine.cache, operator="tester")
        try:
            api.serve_runs(settings, machine, on_ready=tell, wait=ended.wait)
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=serve, name="viewer-under-test")
    thread.start()
    try:
        assert ready.wait(DEADLINE_SECONDS)
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        ended.set()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


class Visitor:
    """Someone who speaks HTTP by hand; with the token in a cookie unless told otherwise."""

    def __init__(self, served: Served) -> None:
        self.host = served.address.removeprefix("http://").removesuffix("/")
        port = self.host.rpartition(":")[2]
        self.cookie = f"repotrial-{port}={served.token}"

    def ask(
        self, path: str, *, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of the answer; `_` in names of headers stands for `-`."""
        connection = http.client.HTTPConnection(self.host, timeout=DEADLINE_SECONDS)
        sent = {"Cookie": self.cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        try:
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace"), dict(answer.getheaders())
        finally:
            connection.close()

    def wait_for(self, path: str, text: str) -> str:
        """The page, as soon as it has a text."""
        found: list[str] = []

        def look() -> bool:
            found[:] = [self.ask(path)[1]]
            return text in found[0]

        assert wait_until(look, seconds=DEADLINE_SECONDS), found
        return found[0]

    def find_run(self, name: str = "") -> str:
        """The address of a run whose row has a text, once it is listed."""
        page = self.wait_for(f"/?{urlencode({'q': name})}" if name else "/", 'href="/run/')
        return str(re.findall(r'href="(/run/[0-9a-f]+)', page)[0])


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Debian's Chromium; skips, and says why, where there is none or it does not start."""
    if BROWSER is None:
        pytest.skip("no Chromium on this machine; get it with: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    home = tempfile.mkdtemp(prefix="browser-")
    with sync_api.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(
                executable_path=BROWSER, args=list(_QUIET), env={**os.environ, "HOME": home}
            )
        except sync_api.Error as error:
            pytest.skip(f"the browser does not start here: {str(error)[:300]}")
        try:
            yield browser
        finally:
            browser.close()
            shutil.rmtree(home, ignore_errors=True)


@dataclass
class Watched:
    """A page, and all that it asked for and complained about."""

    page: Page
    own: str
    """The only address that it may ask."""
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def check(self) -> None:
        """No error on the console, and no request to anywhere else."""
        assert self.complaints == []
        assert self.foreign == []


@contextmanager
def watch_page(browser: Browser, own: str, **settings: object) -> Iterator[Watched]:
    """A page in a context of its own; at the end, everything it did is checked."""
    context = browser.new_context(**settings)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(DEADLINE_SECONDS * 1000)
    watched = Watched(page, own)

    def note(request: Request) -> None:
        if not request.url.startswith((own, "data:", "blob:")):
            watched.foreign.append(request.url)

    page.on("console", lambda told: watched.complaints.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", note)
    try:
        yield watched
        watched.check()
    finally:
        context.close()


def find_violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical on a page, with the elements."""
    from axe_playwright_python.base import AXE_FILE_PATH

    # Through the debugger's own world: the policy of the page stays as strict as it is.
    session = page.context.new_cdp_session(page)
    script = Path(AXE_FILE_PATH).read_text("utf-8")
    session.send("Runtime.evaluate", {"expression": script})
    ask = "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"
    answer = session.send(
        "Runtime.evaluate", {"expression": ask, "awaitPromise": True, "returnByValue": True}
    )
    found = json.loads(answer["result"]["value"])
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
