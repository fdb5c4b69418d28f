"""Whether a word names another host."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from repotrial.shell import Word

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")
_BARE = re.compile(
    r"(?:[A-Za-z0-9_-]+\.)+[A-Za-z]{2,}(?::\d+)?(?:/\S*)?|(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?:/\S*)?"
)
_FILE_SUFFIX = re.compile(
    r"\.(?:py|js|ts|sh|txt|md|json|toml|ya?ml|cfg|ini|html?|css|c|h|cpp|go|rs|java|rb|log|out|csv|xml|lock|zip|gz|tar|tgz|bin|patch|diff)$"
)
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "host.docker.internal", ""})


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.strip("[]").rstrip(".").casefold()
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_remote_word(word: Word, *, bare: bool = False) -> bool:
    """Whether a word names a host that is not this machine; `bare` takes any name for a host."""
    text = word.text
    if (found := _URL.search(text)) is not None:
        if found[0].lower().startswith("file:"):
            return False
        try:
            host = urlsplit(found[0]).hostname or ""
        except ValueError:
            return True
        # A variable in the place of the host may be any host.
        return not is_loopback(host)
    if text.startswith(("-", "/", ".", "@")):
        return False
    if bare:
        text = text.rpartition("@")[2]
    if bare and re.fullmatch(r"[A-Za-z][\w.-]*|[\d.]+|[0-9a-f:]+:[0-9a-f:]*", text) and not text.isdigit():
        return not is_loopback(text)
    if _BARE.fullmatch(text) is None or (_FILE_SUFFIX.search(text) is not None and "/" not in text):
        return not word.is_static and text.startswith("$") and bare
    return not is_loopback(re.split(r"[:/]", text)[0])
