"""The server of `report serve`: it reads run directories, and hands a person's answers on; no more."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

from aiohttp import web

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError, UsageError
from repotrial.report import build_run_page, read_stylesheet
from repotrial.trace import BlobStore, RunPaths, open_regular
from repotrial.viewer._addresses import read_list, read_number, read_run_query
from repotrial.viewer._catalog import ListedRun
from repotrial.viewer._guard import ViewerGuard
from repotrial.viewer._live import LiveRoom
from repotrial.viewer._pages import (
    LIST_RUNS,
    render_list,
    render_page,
    render_pilot,
    render_pilots,
    render_run,
)
from repotrial.viewer._places import FoundPilot
from repotrial.viewer._review_pages import ReviewDesk
from repotrial.viewer._run_view import PAGE_EVENTS
from repotrial.viewer._state import ViewerPorts, ViewerSettings, ViewerState

_MOST_FORM_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 1024**2
_INLINE: Final = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)

VIEWER_ADDRESS = ErrorCode(
    "viewer-address",
    MachineError,
    "The viewer cannot listen at that address.",
    hint="choose another port with --port (0 takes a free one), or an address of this machine with --host",
)
VIEWER_WILDCARD = ErrorCode(
    "viewer-wildcard",
    UsageError,
    "The viewer was to listen at every address of the machine.",
    hint="name the one address or name by which it is reached: requests under other names are refused",
)


class Viewer:
    """One directory, served."""

    def __init__(self, state: ViewerState) -> None:
        self._state = state
        self._live = LiveRoom(state)
        self._desk = ReviewDesk(state)

    def build_app(self) -> web.Application:
        """All that can be asked for."""
        app = web.Application(middlewares=[self._state.guard.middleware()], client_max_size=_MOST_FORM_BYTES)
        app.add_routes(
            [
                web.get("/", self._list),
                web.get("/pilots", self._pilots),
                web.get("/pilot/{key:[0-9a-f]+}", self._pilot),
                web.get("/pilot/{key:[0-9a-f]+}/page", self._results),
                web.get("/pilot/{key:[0-9a-f]+}/review", self._queue),
                web.get("/pilot/{key:[0-9a-f]+}/review/{case:[A-Za-z0-9-]+}", self._case),
                web.post("/pilot/{key:[0-9a-f]+}/review/{case:[A-Za-z0-9-]+}", self._label),
                web.get("/run/{key:[0-9a-f]+}", self._run),
                web.get("/run/{key:[0-9a-f]+}/page", self._page),
                web.get("/run/{key:[0-9a-f]+}/blob/{digest}", self._blob),
                web.post("/run/{key:[0-9a-f]+}/decide", self._decide),
                web.get("/live", self._live.answer),
                web.get("/static/viewer.css", self._style),
                web.get("/static/viewer.js", self._script),
            ]
        )
        return app

    async def _list(self, request: web.Request) -> web.Response:
        first = (read_number(request.query.get("first", "")) or 0) // LIST_RUNS * LIST_RUNS
        return await self._html(lambda: render_list(self._state, read_list(request.query), first))

    async def _pilots(self, _request: web.Request) -> web.Response:
        return await self._html(lambda: render_pilots(self._state))

    async def _pilot(self, request: web.Request) -> web.Response:
        pilot = self._find_pilot(request)
        return await self._html(lambda: render_pilot(self._state, pilot))

    async def _results(self, request: web.Request) -> web.Response:
        pilot = self._find_pilot(request)
        if not pilot.is_over:
            raise web.HTTPForbidden(text="Results come with the end of the pilot.\n")
        page = await self._try(lambda: self._state.ports.build_results(pilot.path).decode())
        return page if isinstance(page, web.Response) else _dress_report(page)

    async def _queue(self, request: web.Request) -> web.Response:
        pilot, reviewer = self._find_pilot(request), self._desk.read_reviewer(request)
        is_whole = request.query.get("all") == "1"
        return await self._html(lambda: self._desk.render_queue(pilot, reviewer, is_whole=is_whole))

    async def _case(self, request: web.Request) -> web.Response:
        pilot, reviewer = self._find_pilot(request), self._desk.read_reviewer(request)
        case = request.match_info["case"]
        return await self._html(lambda: self._desk.render_case(pilot, case, reviewer, request))

    async def _label(self, request: web.Request) -> web.Response:
        pilot, case = self._find_pilot(request), request.match_info["case"]
        form = await self._read_form(request)
        following = await self._try(lambda: self._desk.write(pilot, case, form), back=request.path)
        if isinstance(following, web.Response):
            return following
        raise web.HTTPSeeOther(following)

    async def _read_form(self, request: web.Request) -> dict[str, str]:
        """The fields of a form of ours: one from elsewhere has no key, or a wrong one."""
        form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
        if not self._state.guard.is_own_form(form.get("key", "")):
            raise web.HTTPForbidden(text="The form is not one of this server's pages.\n")
        return form

    async def _run(self, request: web.Request) -> web.Response:
        row = await asyncio.to_thread(self._find_run, request)
        query = read_run_query(request.query, PAGE_EVENTS)
        return await self._html(lambda: render_run(self._state, row, query))

    async def _page(self, request: web.Request) -> web.Response:
        row = await asyncio.to_thread(self._find_run, request)
        page = await self._try(lambda: build_run_page(Path(row.path)))
        return page if isinstance(page, web.Response) else _dress_report(page)

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        row = await asyncio.to_thread(self._find_run, request)
        digest = request.match_info["digest"]
        try:
            path = BlobStore(RunPaths(Path(row.path)).blobs).path_of(digest)
            stream = await asyncio.to_thread(open_regular, path)
        except RepoTrialError as error:
            raise web.HTTPNotFound(text="There is no such body in this run.\n") from error
        name = digest.removeprefix("sha256:")[:12]
        # Text, and to be saved: no browser takes it for a page of ours.
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/plain; charset=utf-8",
                "Content-Disposition": f'attachment; filename="{name}.txt"',
                "Content-Security-Policy": "default-src 'none'; sandbox",
            }
        )
        self._state.guard.dress(response)
        with stream:
            await response.prepare(request)
            while chunk := await asyncio.to_thread(stream.read, _CHUNK_BYTES):
                await response.write(chunk)
        return response

    async def _decide(self, request: web.Request) -> web.Response:
        row = await asyncio.to_thread(self._find_run, request)
        form = await self._read_form(request)
        decision = form.get("decision", "")
        if decision not in {"allow", "abort"}:
            raise web.HTTPBadRequest(text="A decision is `allow` or `abort`.\n")
        who, why = form.get("operator", "").strip(), form.get("text", "").strip()

        def decide() -> str:
            self._state.ports.decide(Path(row.path), decision == "allow", who, why)
            self._state.look_now()
            return f"/run/{row.key}"

        following = await self._try(decide, back=f"/run/{row.key}")
        if isinstance(following, web.Response):
            return following
        raise web.HTTPSeeOther(following)

    async def _style(self, _request: web.Request) -> web.Response:
        return web.Response(text=read_stylesheet() + _read_static("viewer.css"), content_type="text/css")

    async def _script(self, _request: web.Request) -> web.Response:
        return web.Response(text=_read_static("viewer.js"), content_type="text/javascript")

    def _find_run(self, request: web.Request) -> ListedRun:
        row = self._state.catalog.load(request.match_info["key"])
        if row is None:
            raise web.HTTPNotFound(text="There is no such run; the list has all of them.\n")
        return row

    def _find_pilot(self, request: web.Request) -> FoundPilot:
        pilot = self._state.find_pilot(request.match_info["key"])
        if pilot is None:
            raise web.HTTPNotFound(text="There is no such pilot.\n")
        return pilot

    async def _html(self, build: Callable[[], str]) -> web.Response:
        page = await self._try(build)
        return page if isinstance(page, web.Response) else _answer(page)

    async def _try(self, build: Callable[[], str], back: str = "/") -> str | web.Response:
        """What is built, in a thread; an error of ours becomes a page that says it."""
        try:
            return await asyncio.to_thread(build)
        except RepoTrialError as error:
            lines = [line for line in (*error.message.splitlines(), error.hint) if line]
            title = "That did not work"
            return _answer(render_page(self._state, "told", "", title=title, lines=lines, back=back), 409)


def _answer(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


def _dress_report(page: str) -> web.Response:
    """A report's own page: its inline parts are named by their digests, so nothing else in it runs."""
    digests: dict[str, list[str]] = {"style": [], "script": []}
    for kind, text in _INLINE.findall(page):  # text from elsewhere has no tags: it is escaped
        found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
        digests[kind].append(f"'sha256-{found}'")
    policy = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'" + "".join(
        f"; {kind}-src {' '.join(found)}" for kind, found in digests.items() if found
    )
    response = _answer(page)
    response.headers["Content-Security-Policy"] = policy
    return response


def _read_static(name: str) -> str:
    return files("repotrial.viewer").joinpath("static", name).read_text(encoding="utf-8")


def serve_directory(
    settings: ViewerSettings,
    ports: ViewerPorts,
    *,
    on_ready: Callable[[ViewerGuard], None],
    wait: Callable[[], object],
) -> None:
    """Serve a directory until `wait` returns.

    Args:
        settings: What, and where.
        ports: What rooms above do.
        on_ready: Told once requests are answered.
        wait: Blocks, in a thread; the server ends after it.

    Raises:
        VIEWER_ADDRESS: there is no listening at that address.
        VIEWER_WILDCARD: the address is every address.
    """
    if settings.host in {"", "0.0.0.0", "::", "*"}:  # noqa: S104 - refused
        found = f"--host {settings.host}: expected one address of this machine, found all of them"
        raise VIEWER_WILDCARD.error(found)
    state = ViewerState(settings, ViewerGuard(settings.host), ports)
    try:
        asyncio.run(_serve(state, settings, on_ready, wait))
    finally:
        state.stop()


async def _serve(
    state: ViewerState,
    settings: ViewerSettings,
    on_ready: Callable[[ViewerGuard], None],
    wait: Callable[[], object],
) -> None:
    runner = web.AppRunner(
        Viewer(state).build_app(), access_log=None, handle_signals=False, shutdown_timeout=0.5
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port)
        await site.start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        where = f"{settings.host}:{settings.port}"
        raise VIEWER_ADDRESS.error(f"{where}: expected to listen there, found: {error}") from error
    state.guard.bind(runner.addresses[0][1])
    state.start()
    on_ready(state.guard)
    with suppress(asyncio.CancelledError):
        await asyncio.to_thread(wait)
    await runner.cleanup()
