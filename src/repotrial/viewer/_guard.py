"""Who may ask: the holder of the token, under a name of this machine, from pages of this server alone."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

_TOKEN_BYTES: Final = 24
_MOST_AGE_SECONDS: Final = 30 * 24 * 3600
POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What pages of the viewer may load: its own two files."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ViewerGuard:
    """One random token for each start; no page, no file and no action without it."""

    def __init__(self, host: str, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(_TOKEN_BYTES)
        self._host = host
        self._port = 0

    def bind(self, port: int) -> None:
        """Say at which port the server listens."""
        self._port = port

    @property
    def address(self) -> str:
        """What to open, without the token."""
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{shown}:{self._port}/"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self._host).is_loopback
        except ValueError:
            return self._host == "localhost"

    @property
    def form_key(self) -> str:
        """What each form carries: a page of another site cannot know it."""
        return hmac.new(self.token.encode(), b"repotrial/viewer/form@1", hashlib.sha256).hexdigest()

    def middleware(self) -> Middleware:
        """Every request passes it, and every answer leaves through it."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                response = self._refuse(request) or await handler(request)
            except web.HTTPException as stopped:
                self.dress(stopped)
                raise
            self.dress(response)
            return response

        return check

    @staticmethod
    def dress(response: web.StreamResponse) -> None:
        """Put on what every answer wears; one that has begun has it already."""
        if not response.prepared:
            for name, value in {**_HEADERS, "Content-Security-Policy": POLICY}.items():
                response.headers.setdefault(name, value)

    def _refuse(self, request: web.Request) -> web.StreamResponse | None:
        """None if the request may pass."""
        if not self._is_own_host(request.headers.get("Host", "")):
            # A name that leads here from elsewhere: DNS rebinding.
            return web.Response(status=421, text="This server answers under its own address only.\n")
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method != "GET":
            return web.Response(status=403, text="Requests from other sites are refused.\n")
        origin = request.headers.get("Origin")
        if origin is not None and not self._is_own_origin(origin):
            return web.Response(status=403, text="Requests from other sites are refused.\n")
        given = request.query.get("token")
        if given is not None and request.method == "GET":
            return self._let_in(request, given)
        if not self._is_same(request.cookies.get(self._cookie, "")):
            return web.Response(
                status=401,
                text="Open the address that `repotrial report serve` printed: it carries the token.\n",
            )
        return None

    def _let_in(self, request: web.Request, given: str) -> web.StreamResponse:
        if not self._is_same(given):
            return web.Response(status=401, text="This token is not the one of this server.\n")
        rest = [(name, value) for name, value in request.query.items() if name != "token"]
        # The token leaves the address bar, the history and what is copied from them.
        response = web.HTTPSeeOther(request.path + (f"?{urlencode(rest)}" if rest else ""))
        response.set_cookie(
            self._cookie, self.token, httponly=True, samesite="Strict", max_age=_MOST_AGE_SECONDS, path="/"
        )
        raise response

    @property
    def _cookie(self) -> str:
        # Cookies know no ports: two servers of one machine would overwrite each other's.
        return f"repotrial-{self._port}"

    def _is_same(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.token.encode())

    def is_own_form(self, given: str) -> bool:
        """Whether a form came from a page of this server."""
        return secrets.compare_digest(given.encode(), self.form_key.encode())

    def _is_own_host(self, host: str) -> bool:
        return host.lower() in self._list_names()

    def _is_own_origin(self, origin: str) -> bool:
        return origin.lower() in {f"http://{name}" for name in self._list_names()}

    def _list_names(self) -> set[str]:
        shown = f"[{self._host}]" if ":" in self._host else self._host
        names = {f"{shown}:{self._port}".lower()}
        if self.is_local:
            names |= {f"{name}:{self._port}" for name in ("localhost", "127.0.0.1", "[::1]")}
        return names
