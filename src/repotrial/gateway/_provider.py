"""A model provider over HTTPS: the agent's bytes go out as they are, the credential is added outside."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.gateway._headers import CREDENTIAL_HEADERS
from repotrial.gateway._model import UpstreamAnswer, UpstreamRequest
from repotrial.wire import Dialect

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL
import tomllib

_KeyPlace: TypeAlias = Literal["bearer", "x-api-key", "x-goog-api-key", "api-key", "none"]
"""Where a provider wants its credential: `Authorization: Bearer`, or the header of that name."""

_CONNECT_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 600.0
_HIDDEN: Final = "[credential]"
_BEARER: Final = "Bearer "
_PATH_MODEL: Final = re.compile(
    # Names in Bedrock's paths have a version behind a colon; in the others a verb stands there.
    r"(?P<before>/(?:models|tunedModels|deployments)/|/model/(?=[^/?]+/invoke))"
    r"(?P<model>(?<=/model/)[^/?]+|(?<!/model/)[^/:?]+)"
)
_MOST_KEY_BYTES: Final = 64 * 1024


PROVIDER_UNUSABLE = ErrorCode(
    "provider-unusable",
    UsageError,
    "A provider cannot be asked as it is described: no such key in the environment, or no such address.",
    hint="set the environment variable that the provider's description names, and check its address",
)


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider is reached; it names the variable that holds the key, never the key."""

    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s?#@]+$(?!\n)")]
    """What the agent's path is put behind: `https://api.openai.com`."""
    key_variable: str | None = None
    """The host's environment variable that holds the credential."""
    key_file: str | None = None
    """In its place, a file of the host that holds it: read for each request, since such keys are renewed."""
    key_place: _KeyPlace = "bearer"
    """Where the credential goes."""
    path_prefix_removed: str = ""
    """Taken off the front of the agent's path: `/v1` where `base_url` says it already."""
    query: dict[str, str] = {}
    """Parameters that every request gets: Azure's `api-version`."""
    headers: dict[str, str] = {}
    """Headers that every request gets, over the agent's own."""
    models: dict[str, str] = {}
    """Names that the provider knows models by, where they are not the agent's; others pass unchanged."""
    dialects: tuple[Dialect, ...] = ()
    """Wire formats that it speaks; an agent with another one is refused before it starts. Empty: any."""


class ProviderUpstream:
    """Asks a provider, and tries nothing twice: how often is the agent's decision, and evidence.

    Args:
        config: Where and how.
        variables: The host's environment.

    Raises:
        PROVIDER_UNUSABLE: The variable that holds the key is not set, or the description holds one.
    """

    def __init__(self, config: ProviderConfig, variables: Mapping[str, str]) -> None:
        self._config = config
        self._base = config.base_url.rstrip("/")
        self._credential = _CredentialSource(config, variables)
        self._session: aiohttp.ClientSession | None = None

    @property
    def description(self) -> str:
        return f"provider {self._config.base_url}"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        credential = self._credential.find()
        response = await self._open_session().request(
            request.method,
            self._build_url(request.target),
            headers=self._build_headers(request.headers, credential),
            data=self._build_body(request.body),
            allow_redirects=False,  # the credential must not travel
        )
        chunks = _iter_chunks(response)
        headers = _join_headers(response)
        for value in credential.values():
            key = value.removeprefix(_BEARER)
            chunks = _hide_key(chunks, key.encode())
            headers = {name: told.replace(key, _HIDDEN) for name, told in headers.items()}
        return UpstreamAnswer(status=response.status, headers=headers, chunks=chunks)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
                # Proxies and `.netrc` of the host are not part of what the run declares.
                trust_env=False,
            )
        return self._session

    def _build_url(self, target: str) -> URL:
        path, _, query = target.partition("?")
        path = path.removeprefix(self._config.path_prefix_removed)
        path = _PATH_MODEL.sub(self._map_path, path, count=1)
        added = "&".join(f"{name}={value}" for name, value in self._config.query.items())
        joined = "&".join(part for part in (query, added) if part)
        from yarl import URL

        return URL(f"{self._base}{path}{'?' if joined else ''}{joined}", encoded=True)

    def _map_path(self, match: re.Match[str]) -> str:
        return match["before"] + self._config.models.get(match["model"], match["model"])

    def _build_headers(self, headers: Mapping[str, str], credential: Mapping[str, str]) -> dict[str, str]:
        # Plain bytes, so that what is recorded is what was said.
        return {**headers, "accept-encoding": "identity", **self._config.headers, **credential}

    def _build_body(self, body: bytes) -> bytes:
        if not self._config.models:
            return body
        try:
            members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            model = msgspec.json.decode(members.get("model", msgspec.Raw(b"null")))
        except msgspec.DecodeError:
            return body
        if not isinstance(model, str) or model not in self._config.models:
            return body
        members["model"] = msgspec.Raw(msgspec.json.encode(self._config.models[model]))
        return msgspec.json.encode(members)


class _CredentialSource:
    """What a provider wants to see; verified at once, and again whenever a file is read."""

    def __init__(self, config: ProviderConfig, variables: Mapping[str, str]) -> None:
        self._config = config
        self._key = None if config.key_variable is None else variables.get(config.key_variable, "").strip()
        _verify_description(config)
        self.find()

    def find(self) -> dict[str, str]:
        """The header with the key; none where the provider wants none.

        Raises:
            PROVIDER_UNUSABLE: there is no key, or none that can stand in a header.
        """
        config = self._config
        key, place = self._key, f"the environment variable {config.key_variable}"
        if config.key_file is not None:
            key, place = _read_key(config.key_file), f"the file {config.key_file}"
        if key is None or config.key_place == "none":
            return {}
        if not key:
            raise PROVIDER_UNUSABLE.error(f"expected a key in {place}, found none")
        if not key.isascii() or not key.isprintable():
            raise PROVIDER_UNUSABLE.error(f"{place}: expected a key of printable characters, found others")
        if config.key_place == "bearer":
            return {"authorization": f"{_BEARER}{key}"}
        return {config.key_place: key}


def _verify_description(config: ProviderConfig) -> None:
    written = sorted(name for name in config.headers if name.lower() in CREDENTIAL_HEADERS)
    if written:
        raise PROVIDER_UNUSABLE.error(
            f"headers: expected no credentials in a description, found {', '.join(written)}"
        )
    if config.key_variable is not None and config.key_file is not None:
        raise PROVIDER_UNUSABLE.error("expected key_variable or key_file, found both")
    if (config.key_variable is None and config.key_file is None) or config.key_place == "none":
        return
    from yarl import URL

    url = URL(config.base_url)
    if url.scheme != "https" and not _is_loopback(url.host or ""):
        raise PROVIDER_UNUSABLE.error(
            f"{config.base_url}: expected https where a key is sent, found {url.scheme}"
        )


def _read_key(path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(_MOST_KEY_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise PROVIDER_UNUSABLE.error(
            f"{path}: expected a file with a key, found: {error.strerror}"
        ) from error


async def _hide_key(chunks: AsyncGenerator[bytes], key: bytes) -> AsyncGenerator[bytes]:
    """An answer without the key, wherever pieces of it are cut: some providers say it again."""
    kept = b""
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            text = (kept + chunk).replace(key, _HIDDEN.encode())
            held = _find_beginning(text, key)
            kept = text[len(text) - held :]
            if len(text) > held:
                yield text[: len(text) - held]
    if kept:
        yield kept


def _find_beginning(text: bytes, key: bytes) -> int:
    """How many bytes at the end may be the beginning of the key."""
    return next((size for size in range(len(key) - 1, 0, -1) if text.endswith(key[:size])), 0)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _join_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        lowered = name.lower()
        headers[lowered] = f"{headers[lowered]}, {value}" if lowered in headers else value
    return headers


async def _iter_chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    is_whole = False
    try:
        async for chunk in response.content.iter_any():
            yield chunk
        is_whole = True
    finally:
        # A connection with half an answer in it is of no use to the next request.
        if is_whole:
            response.release()
        else:
            response.close()


PROVIDER_INVALID = ErrorCode(
    "provider-invalid",
    UsageError,
    "A provider's description cannot be read, or is not one.",
    hint="write base_url, key_variable and key_place, as docs/how-to/run-a-real-agent.md shows",
)


def load_provider(path: Path) -> ProviderConfig:
    """Read a provider's description (TOML).

    Raises:
        PROVIDER_INVALID: it is not one; the message names the file and the field.
    """
    try:
        value = tomllib.loads(path.read_text())
        return msgspec.convert(value, ProviderConfig)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise PROVIDER_INVALID.error(f"{path}: expected a provider's description, found: {error}") from error
