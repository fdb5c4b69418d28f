"""What a policy says about programs: which may run, how often dependencies may be resolved, from where.

Read over what ran (C7, B6), so that every kind of agent is held to it, however a program was started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

from repotrial.contract import DependencyPolicy, Policy
from repotrial.shell import find_installs, parse_shell

_INDEX_OPTIONS: Final = frozenset(
    {
        "-i",
        "--index-url",
        "--extra-index-url",
        "--index",
        "--default-index",
        "--registry",
        "-f",
        "--find-links",
    }
)
_ADDRESS = re.compile(r"(?:git\+)?(?:https?|ssh|git|ftp)://[^\s'\"]+")
_WORD = re.compile(r"[\w@%+=:,./~^<>!\[\]-]+")


def list_program_names(argv: Sequence[str], exe: str | None, copies: Sequence[str] = ()) -> tuple[str, ...]:
    """What a program was called, what its file is called and what that is a copy of: a policy means any."""
    called = argv[0].rpartition("/")[2].removeprefix("-") if argv else ""
    kept = (exe or "").rpartition("/")[2]
    copied = (path.rpartition("/")[2] for path in copies)
    return tuple(name for name in dict.fromkeys((called, kept, *copied)) if name)


def is_denied(names: Sequence[str], policy: Policy) -> bool:
    """Whether the policy keeps a program of these names from running."""
    tools = policy.tools
    if not set(names).isdisjoint(tools.denied):
        return True
    return tools.allowed is not None and set(names).isdisjoint(tools.allowed)


def is_resolution(argv: Sequence[str]) -> bool:
    """Whether a program resolves dependencies (B6): `pip install x`, `npm ci`, `cargo update`."""
    line = " ".join(word if _WORD.fullmatch(word) else "_" for word in argv[:200])
    return bool(line) and bool(find_installs(parse_shell(line)))


def find_foreign_registries(argv: Sequence[str], policy: DependencyPolicy) -> tuple[str, ...]:
    """Hosts that a resolution names and the contract does not list; none where it lists no registries."""
    if not policy.registries:
        return ()
    known = {_find_host(each) for each in policy.registries}
    found = dict.fromkeys(host for host in map(_find_host, _iter_addresses(argv)) if host)
    return tuple(host for host in found if host not in known)


def _iter_addresses(argv: Sequence[str]) -> Iterator[str]:
    for word, following in pairwise((*argv, "")):
        if word in _INDEX_OPTIONS:
            yield following
        option, separator, value = word.partition("=")
        if separator and option in _INDEX_OPTIONS:
            yield value
        yield from _ADDRESS.findall(word)


def _find_host(address: str) -> str:
    """The host of an address, or of a bare `host/path`; empty for a path of this machine."""
    text = address.strip().removeprefix("git+")
    if text.startswith(("/", ".", "file:")):
        return ""
    parsed = urlsplit(text if "://" in text else f"https://{text}")
    try:
        return (parsed.hostname or "").casefold()
    except ValueError:
        return text.casefold()
