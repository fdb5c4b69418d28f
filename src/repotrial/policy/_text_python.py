"""Rules over Python code, by its words: code in a message need not parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MAX_PYTHON_CHARACTERS: Final = 200_000
_FETCH = r"(?:urlopen|urlretrieve|requests\.(?:get|post)|httpx\.(?:get|post)|http\.client|urllib3?\b)"
_REMOTE = r"(?:https?|ftp)://(?!127\.|localhost|\[::1\]|0\.0\.0\.0)"
_PYTHON_RULES: Final = tuple(
    (rule, re.compile(pattern, re.DOTALL))
    for rule, pattern in (
        ("download-and-run", rf"\b(?:exec|eval)\s*\([^\n]{{0,200}}{_FETCH}"),
        ("download-and-run", rf"{_FETCH}[^\n]{{0,300}}(?:;|\n)[^\n]{{0,200}}\b(?:exec|eval)\s*\(\s*\w+"),
        ("download-and-run", rf"{_FETCH}[^\n]{{0,300}}\b(?:os\.system|subprocess\.\w+)\s*\("),
        ("exfiltration", rf"\b(?:requests|httpx|session)\.(?:post|put)\s*\(\s*f?['\"]{_REMOTE}"),
        ("exfiltration", rf"\bRequest\s*\(\s*['\"]{_REMOTE}[^\n]{{0,200}}\bdata\s*="),
        ("network-access", r"\.connect\s*\(\s*\(\s*['\"](?!127\.|localhost|::1|0\.0\.0\.0)[\w.:-]+['\"]\s*,"),
        ("network-access", rf"\b(?:requests|httpx|session)\.(?:get|head)\s*\(\s*f?['\"]{_REMOTE}"),
        ("network-access", rf"\burl(?:open|retrieve)\s*\(\s*f?['\"]{_REMOTE}"),
        (
            "destructive-delete",
            r"\brmtree\s*\(\s*(?:['\"](?:/|~|/home|/root|/etc|/usr)/?['\"]|(?:os\.path\.)?expanduser|Path\.home\(\))",
        ),
        (
            "secret-access",
            r"['\"](?:/proc/(?!self/)[^'\"/]+/environ|/etc/(?:shadow|sudoers)|[^'\"\n]{0,100}\.ssh/id_\w+|~/\.(?:netrc|ssh|aws)[^'\"\n]{0,60})['\"]",
        ),
        ("secret-access", r"f['\"]/proc/\{[^}]{1,40}\}/environ['\"]"),
        ("privilege-grant", r"\bos\.set(?:res)?[ug]id\s*\(\s*0"),
        (
            "sandbox-probe",
            r"\bptrace\b[^\n]{0,40}\(|\bos\.(?:unshare|setns)\s*\(|['\"]/proc/(?:self|1)/(?:ns|root|mem)\b",
        ),
        ("sandbox-escape", r"['\"]/(?:var/)?run/docker\.sock['\"]"),
        ("fork-bomb", r"while\s+(?:True|1)\s*:\s*(?:\n\s*)?os\.fork\s*\("),
    )
)


def find_in_python(code: str) -> Iterator[tuple[str, int, int]]:
    """Rules that code meets, each once, and between which characters."""
    seen: set[str] = set()
    for rule, pattern in _PYTHON_RULES:
        if rule not in seen and (found := pattern.search(code[:_MAX_PYTHON_CHARACTERS])) is not None:
            seen.add(rule)
            yield rule, found.start(), found.end()
