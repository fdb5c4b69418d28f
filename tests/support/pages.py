"""Pages as a browser's parser sees them: which elements there are, and what they ask for."""

from __future__ import annotations

from html.parser import HTMLParser

_ELEMENTS = """
    a b body code dd details div dl dt em h1 h2 h3 head header html i li main meta nav ol p pre rect section
    span style summary svg table tbody td th thead title tr ul
"""
_ATTRIBUTES = """
    aria-hidden aria-label charset class colspan content data-label height href http-equiv id lang name open
    preserveaspectratio role viewbox width x y
"""
_VOID = frozenset({"meta"})


class Page(HTMLParser):
    """One page, taken apart."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.styles = ""
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
        else:
            self._texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.unbalanced.append(f"<!--{data}")


def read_page(html: str) -> Page:
    """Take a page apart, and hold it against everything that is true of every page."""
    page = Page(html)
    assert page.elements <= set(_ELEMENTS.split())
    assert page.attributes <= set(_ATTRIBUTES.split())
    assert not page.unbalanced
    assert not page._open
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids), "a link leads into the page"
    assert "url(" not in page.styles
    assert "@import" not in page.styles
    assert "default-src 'none'" in html
    assert all(character.isprintable() or character in "\n\t" for character in html)
    return page
