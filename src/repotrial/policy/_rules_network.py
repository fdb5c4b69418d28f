"""Rules over commands that speak with other hosts, or that run what came from there."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

from repotrial.policy._text_model import find_names, has_letter, iter_paths, list_sources, place
from repotrial.shell import ShellCommand, ShellScript, Word, classify_command

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


_SENDING = re.compile(
    r"-d(?:@.*)?|-[A-Za-z]*[FT]|--data(?:-\w+)?|--form(?:-string)?|--upload-file|--post-(?:data|file)|--body-(?:data|file)|--json"
)
_METHOD = re.compile(r"(?:--request=|--method=|-X)?(?:POST|PUT|PATCH)")
_RAW_SOCKET = re.compile(r"/dev/(?:tcp|udp)/(?!127\.|localhost)")
_SOCAT = re.compile(r"(?:tcp|udp|openssl|ssl)\w*:(?!127\.|localhost)", re.IGNORECASE)
_REMOTE_PLACE = re.compile(r"(?:[\w.-]+@)?[\w.-]{2,}:(?!\\)")
_INDEX = re.compile(r"--(?:extra-)?index-url(?:=.*)?|-i|--registry(?:=.*)?|--find-links(?:=.*)?|-f")
_ADDRESS = re.compile(r"(?:\w+\+)?(?:https?|ssh|git|ftp)://|git\+|git@|github:")


def _downloads(command: ShellCommand) -> bool:
    return command.name in find_names("downloaders") and any(
        is_remote_word(word) for word in command.arguments
    )


def downloads_and_runs(command: ShellCommand, script: ShellScript) -> bool:
    """`curl … | sh`, `bash <(curl …)` or `eval "$(wget …)"`."""
    runs = command.runs_input or "eval" in (command.name, *command.wrappers)
    if runs and any(_downloads(each) for each in list_sources(command, script)):
        return True
    given = [script.commands[index] for index in command.substitutions]
    is_runner = command.runs_input or command.name in find_names("runners")
    return is_runner and any(_downloads(each) for each in given)


def find_saved(script: ShellScript) -> frozenset[str]:
    """Files that a script downloads."""
    return frozenset(path for each in script.commands if _downloads(each) for path in _iter_saved(each))


def runs_saved(command: ShellCommand, saved: frozenset[str]) -> bool:
    """Whether it runs a file that was downloaded."""
    if not saved or command.name == "chmod":
        return False
    words = command.arguments if command.name in find_names("runners") else command.words[:1]
    return any(place(command, word) in saved for word in words)


def _iter_saved(command: ShellCommand) -> Iterator[str]:
    yield from (place(command, each.target) for each in command.redirections if each.target is not None)
    for word, following in pairwise(command.arguments):
        if re.fullmatch(r"-[A-Za-z]*[oO]|--output(?:-document)?", word.text):
            yield place(command, following)
    if command.name == "wget" or has_letter(command, "O", "--remote-name"):
        for word in command.arguments:
            if is_remote_word(word):
                yield command.locate(word.text.rstrip("/").rpartition("/")[2]) or ""


def sends(command: ShellCommand, script: ShellScript) -> bool:
    """Data goes to another host."""
    if any(_RAW_SOCKET.search(path) for path in iter_paths(command)):
        return True
    if command.name in find_names("downloaders"):
        return any(is_remote_word(word) for word in command.arguments) and _has_data(command, script)
    if command.name not in find_names("talkers") and command.name != "git":
        return False
    return _names_host(command) and _gives_data(command)


def _names_host(command: ShellCommand) -> bool:
    match command.name:
        case "socat":
            return any(_SOCAT.match(word.text) for word in command.arguments)
        case "scp" | "rsync":
            return any(_is_remote_place(word) for word in command.arguments)
        case "git":
            return "push" in command.argv[1:4]
        case _:
            return any(is_remote_word(word, bare=True) for word in command.arguments)


def _is_remote_place(word: Word) -> bool:
    """`host:path` or `user@host:path` of another machine."""
    found = _REMOTE_PLACE.match(word.text)
    return found is not None and not is_loopback(found[0].rpartition("@")[2].removesuffix(":"))


def _is_local(text: str) -> bool:
    try:
        return is_loopback(urlsplit(text).hostname or text)
    except ValueError:
        return False


def _gives_data(command: ShellCommand) -> bool:
    """Whether something goes out: asking whether a port is open, or fetching a file, sends nothing."""
    match command.name:
        case "scp" | "rsync":
            return _is_remote_place(command.words[-1])
        case "git":
            # Without an address the repository has nowhere to push to.
            return any(_ADDRESS.match(word.text) and not _is_local(word.text) for word in command.arguments)
        case "socat":
            return True
        case _:
            is_read = any(each.kind == "read" for each in command.redirections)
            is_fed = bool(command.sources) or command.input_text is not None or is_read
            return is_fed or has_letter(command, "ec", "--exec", "--sh-exec")


def _has_data(command: ShellCommand, script: ShellScript) -> bool:
    given = (script.commands[index].name for index in command.substitutions)
    return not {"env", "printenv", "cat", "base64", "tar"}.isdisjoint(given) or any(
        _SENDING.fullmatch(word.text.partition("=")[0]) or _METHOD.fullmatch(word.text)
        for word in command.arguments
    )


def contacts(command: ShellCommand, script: ShellScript) -> bool:
    """Another host is asked, and no data is sent."""
    if sends(command, script):
        return False
    if command.name in find_names("namers"):
        return any(is_remote_word(word, bare=True) for word in command.arguments)
    if command.name in find_names("talkers") or command.name == "git":
        return _names_host(command)
    return command.name in find_names("downloaders") and any(
        is_remote_word(word) for word in command.arguments
    )


def hides(command: ShellCommand, script: ShellScript) -> bool:
    """What a decoder prints is run, known or not."""
    if not (command.is_dynamic or "script" in command.nesting):
        return False
    fed = [each.name for each in list_sources(command, script)]
    fed += [script.commands[index].name for index in command.substitutions]
    runs = command.runs_input or command.name in find_names("runners") or "script" in command.nesting
    return runs and not find_names("decoders").isdisjoint(fed)


def installs(command: ShellCommand, _: ShellScript) -> bool:
    """Packages are installed, by any account."""
    is_wrapped = bool(command.wrappers) and command.name in {
        "apt",
        "apt-get",
        "yum",
        "dnf",
        "apk",
        "pip",
        "pip3",
    }
    return classify_command(command) == "install" or is_wrapped


def installs_remote(command: ShellCommand, script: ShellScript) -> bool:
    """A package comes from an address of its own, or an index other than the configured one."""
    if not installs(command, script):
        return False
    if any(_ADDRESS.match(word.text) for word in command.arguments):
        return True
    has_index = any(_INDEX.fullmatch(word.text) for word in command.arguments)
    return has_index and any(is_remote_word(word) for word in command.arguments)
