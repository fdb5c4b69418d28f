"""Requests that the proxy makes or looks up: live, live and kept, or kept from before."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from types import SimpleNamespace
from typing import Final, Literal, Protocol

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from repotrial._core.digest import digest_bytes
from repotrial.gateway._model import UpstreamAnswer
from repotrial.gateway._proxy._hosts import (
    AddressCheck,
    Authority,
    RefusedAddressError,
    Resolver,
    SystemResolver,
    find_address_problem,
    resolve_checked,
)
from repotrial.gateway._proxy._tape import Tape, TapeWriter
from repotrial.wire import HttpAnswer

_CONNECT_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 300.0
_MOST_KEPT: Final = 256 * 1024 * 1024


class NotRecordedError(Exception):
    """A replay is asked for what was never recorded."""


class NotKeptError(Exception):
    """An answer passed whole, and could not be kept."""


def _ignore(size: int) -> None: ...


class WebRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a program in the sandbox asks for."""

    scheme: Literal["http", "https"]
    authority: Authority
    method: str
    path: str
    """Path and query, as sent."""
    headers: Mapping[str, str]
    body: bytes
    on_sent: Callable[[int], None] = _ignore
    """Told how much of the body goes out, when it does."""

    @property
    def url(self) -> str:
        """In one spelling: the port stands where it is not the usual one."""
        usual = {"http": 80, "https": 443}[self.scheme]
        host = f"[{self.authority.host}]" if ":" in self.authority.host else self.authority.host
        port = "" if self.authority.port == usual else f":{self.authority.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


class Fetcher(Protocol):
    """Answers the proxy's requests."""

    @property
    def is_live(self) -> bool:
        """Whether anything is reached outside."""
        ...

    async def fetch(self, request: WebRequest) -> UpstreamAnswer:
        """Ask; the answer begins when its status is known."""
        ...

    async def close(self) -> None: ...


class LiveFetcher:
    """Reaches hosts outside, at addresses that were checked at that moment.

    It follows no redirect: the program inside asks again, and is checked again.

    Args:
        resolver: Turns names into addresses; the host's own way where there is none.
        check: Which addresses may be reached.
        tls: What is trusted, where it is not what the host trusts.
    """

    is_live = True

    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        check: AddressCheck = find_address_problem,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolver = resolver or SystemResolver()
        self._check = check
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, request: WebRequest) -> UpstreamAnswer:
        if request.authority.is_address:  # these never come to a resolver
            await resolve_checked(request.authority, resolver=self._resolver, check=self._check)
        response = await self._open_session().request(
            request.method,
            URL(request.url, encoded=True),
            headers=request.headers,
            data=request.body or None,
            allow_redirects=False,
            trace_request_ctx=request,
        )
        headers = {name.lower(): value for name, value in response.headers.items()}
        return UpstreamAnswer(status=response.status, headers=headers, chunks=_iter_chunks(response))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_request_chunk_sent.append(_tell_sent)
            # No connection is kept and no name is remembered: each request is checked by itself.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    force_close=True,
                    ssl=self._tls or True,
                    use_dns_cache=False,
                    resolver=_CheckedResolver(self._resolver, self._check),
                ),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[tracing],
            )
        return self._session


async def _tell_sent(
    _: aiohttp.ClientSession, context: SimpleNamespace, sent: aiohttp.TraceRequestChunkSentParams
) -> None:
    context.trace_request_ctx.on_sent(len(sent.chunk))


class _CheckedResolver(AbstractResolver):
    """Gives the connector the very addresses that were checked."""

    def __init__(self, resolver: Resolver, check: AddressCheck) -> None:
        self._resolver = resolver
        self._check = check

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - any will do
    ) -> list[ResolveResult]:
        authority = Authority(host=host.lower(), port=port)
        addresses = await resolve_checked(authority, resolver=self._resolver, check=self._check)
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if address.version == 6 else socket.AF_INET,  # noqa: PLR2004
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


class RecordingFetcher:
    """Keeps what another one fetches; an answer for which there is no memory passes, and is not kept.

    Args:
        fetcher: The one that is asked.
        writer: Takes answers that are whole.
        most_bytes: Of all answers together that are under way.
    """

    def __init__(self, fetcher: Fetcher, writer: TapeWriter, *, most_bytes: int = _MOST_KEPT) -> None:
        self._fetcher = fetcher
        self._writer = writer
        self._most_bytes = most_bytes
        self._held_bytes = 0

    @property
    def is_live(self) -> bool:
        return self._fetcher.is_live

    async def fetch(self, request: WebRequest) -> UpstreamAnswer:
        fetched = await self._fetcher.fetch(request)
        return UpstreamAnswer(
            status=fetched.status, headers=fetched.headers, chunks=self._iter_kept(request, fetched)
        )

    async def close(self) -> None:
        try:
            await self._fetcher.close()
        finally:
            await asyncio.to_thread(self._writer.close)  # waits for the disk

    async def _iter_kept(self, request: WebRequest, fetched: UpstreamAnswer) -> AsyncIterator[bytes]:
        kept: bytearray | None = bytearray()
        held = 0
        try:
            async for chunk in fetched.chunks:
                if kept is not None and self._held_bytes + len(chunk) > self._most_bytes:
                    kept = None
                    self._held_bytes -= held
                    held = 0
                if kept is not None:
                    kept += chunk
                    held += len(chunk)
                    self._held_bytes += len(chunk)
                yield chunk
            if kept is not None:  # half an answer would be replayed as a whole one
                self._keep(request, fetched, bytes(kept))
        finally:
            self._held_bytes -= held
            if isinstance(fetched.chunks, AsyncGenerator):
                await fetched.chunks.aclose()

    def _keep(self, request: WebRequest, fetched: UpstreamAnswer, body: bytes) -> None:
        try:
            self._writer.append(
                method=request.method,
                url=request.url,
                request_digest=digest_bytes(request.body),
                part=request.headers.get("range", ""),
                answer=HttpAnswer(status=fetched.status, headers=dict(fetched.headers), body=body),
            )
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise NotKeptError(f"{request.method} {request.url[:200]}: {reason}") from error


class ReplayFetcher:
    """Answers from a tape and reaches nothing."""

    is_live = False

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def fetch(self, request: WebRequest) -> UpstreamAnswer:
        answer = self._tape.find(
            method=request.method,
            url=request.url,
            request_digest=digest_bytes(request.body),
            part=request.headers.get("range", ""),
        )
        if answer is None:
            raise NotRecordedError(f"{request.method} {request.url[:500]}")
        return UpstreamAnswer(status=answer.status, headers=answer.headers, chunks=_iter_once(answer.body))

    async def close(self) -> None:
        """Nothing is open."""


def find_refusal(error: BaseException | None) -> RefusedAddressError | None:
    """The refusal that an HTTP client's error came of; None if it came of something else."""
    while error is not None:
        if isinstance(error, RefusedAddressError):
            return error
        error = error.__cause__ or error.__context__
    return None


async def _iter_once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


async def _iter_chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    finally:
        response.close()
