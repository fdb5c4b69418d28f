"""Pages as a browser's parser sees them: which elements there are, and what they ask for."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from urllib.parse import unquote

_ELEMENTS = """
    a b body code dd details div dl dt em h1 h2 h3 head header html i li main meta nav ol p pre rect section
    span style summary svg table tbody td th thead title tr ul
"""
_ATTRIBUTES = """
    aria-hidden aria-label charset class colspan content data-label height href http-equiv id lang name open
    preserveaspectratio role viewbox width x y
"""
_VOID = frozenset({"br", "input", "meta"})


class Page(HTMLParser):
    """One page, taken apart."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.styles = ""
        self.scripts: list[str] = []
        self.unbalanced: list[str] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        """What a person reads, in one line."""
        return " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.styles += data
        elif self._open and self._open[-1] == "script":
            self.scripts.append(data)
        else:
            self._texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.unbalanced.append(f"<!--{data}")


_REPORT_ELEMENTS = """
    br button circle defs figcaption figure input kbd label line option output path pattern script select text
"""
_REPORT_ATTRIBUTES = """
    data-class data-listing rel role
    aria-labelledby cx cy d fill hidden patterntransform patternunits r scope size stroke stroke-width
    tabindex text-anchor transform type value x1 x2 y1 y2
"""


def read_report(html: str) -> Page:
    """The same for a report: the only script is the one whose digest its policy names."""
    page = Page(html)
    assert page.elements <= set((_ELEMENTS + _REPORT_ELEMENTS).split()), page.elements
    assert page.attributes <= set((_ATTRIBUTES + _REPORT_ATTRIBUTES).split()), page.attributes
    assert not page.unbalanced
    assert not page._open
    assert len(set(page.ids)) == len(page.ids)
    inside = [link for link in page.links if link.startswith("#")]
    assert {link.removeprefix("#") for link in inside} <= set(page.ids), "a link leads into the page"
    beside = [unquote(link) for link in page.links if not link.startswith("#")]
    assert all(re.match(r"([^:/?#]+/)?[^:/?#]+$", link) for link in beside), "or to a file beside it"
    (script,) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert f"script-src 'sha256-{digest}'" in policy.replace("&#39;", "'")
    assert "default-src 'none'" in policy.replace("&#39;", "'")
    assert "@import" not in page.styles
    assert all(character.isprintable() or character in "\n\t" for character in html)
    return page


def read_page(html: str) -> Page:
    """Take the page of one run apart, and hold it against everything that is true of every page."""
    page = read_report(html)
    assert all(link.startswith("#") or link.endswith(".html") for link in page.links), "or a run beside it"
    assert "url(" not in page.styles
    return page
