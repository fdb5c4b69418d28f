"""What secrets look like: the spellings of a declared value, and shapes of values that no one declared.

A pattern that also matches ordinary text gets the whole scanner switched off, so only shapes with a long
fixed mark are here; key ids that open nothing (AWS `AKIA…`), JWTs in test data and "high entropy" are left
out. Patterns look at no neighboring characters and have bounded repeats: the first keeps redaction
idempotent, the second keeps it linear in the text, whatever an agent prints. Examples are put together from
pieces, so that other scanners do not stop at this file.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

import msgspec

_WRAP_WIDTHS: Final = (76, 64)
"""Of `base64` and MIME, of `openssl` and PEM."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A named shape of secret."""

    name: str
    """Kebab-case; it stands in the placeholder."""
    pattern: str
    """A regular expression without groups that capture, lookaround, or quotation marks in what it matches."""
    example: str
    """Text that the pattern must match; the canary check sends it through the scanner."""


# Between the lines of a key: real white space, or its escapes in JSON, or in JSON inside JSON.
_GAP = r"(?:[ \t\r\n]|\\{1,8}[rnt])"
_LABEL = r"(?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_ARMOR_HEADER = r"[A-Za-z][A-Za-z-]{0,40}: [A-Za-z0-9 ,./()-]{0,200}"
_KEY_BLOCK = (
    rf"-----BEGIN {_LABEL}"
    rf"(?:{_GAP}++{_ARMOR_HEADER}){{0,8}}"
    rf"(?:{_GAP}*+[A-Za-z0-9+/=]{{16,}}+)+"
    # A short last line belongs to the key only if the end mark follows; a cut-off key has neither.
    rf"(?:(?:{_GAP}+[A-Za-z0-9+/=]{{1,15}}){{0,2}}{_GAP}*-----END {_LABEL})?"
)

DEFAULT_RULES: tuple[Rule, ...] = (
    Rule(
        name="private-key",
        pattern=_KEY_BLOCK,
        example="\n".join(["-----BEGIN {0}", "MC4CAQAwBQYDK2Vw" * 4, "-----END {0}"]).format(
            "PRIVATE KEY-----"
        ),
    ),
    Rule(name="github-token", pattern=r"gh[pousr]_[A-Za-z0-9]{36,251}", example="ghp_" + "a1" * 18),
    Rule(
        name="github-fine-grained-token",
        pattern=r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        example="github_pat_" + "a1" * 11 + "_" + "b2" * 29 + "c",
    ),
    Rule(name="gitlab-token", pattern=r"glpat-[A-Za-z0-9_-]{20,64}", example="glpat-" + "a1" * 10),
    Rule(
        name="anthropic-key",
        pattern=r"sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{80,120}",
        example="sk-ant-api03-" + "a1" * 47,
    ),
    Rule(
        name="openai-key",
        # Every key of this vendor carries its name in base64 in the middle.
        pattern=r"sk-[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}",
        example="sk-" + "a1" * 10 + "T3BlbkFJ" + "b2" * 10,
    ),
    Rule(name="google-api-key", pattern=r"AIzaSy[A-Za-z0-9_-]{33}", example="AIzaSy" + "a1" * 16 + "b"),
    Rule(
        name="slack-token",
        pattern=r"xox[abposr]-[0-9]{8,14}-[0-9A-Za-z-]{10,120}",
        example="xoxb-" + "1234567890-" + "a1" * 12,
    ),
    Rule(name="stripe-key", pattern=r"[sr]k_live_[0-9A-Za-z]{24,99}", example="sk_live_" + "a1" * 12),
    Rule(name="npm-token", pattern=r"npm_[A-Za-z0-9]{36}", example="npm_" + "a1" * 18),
    Rule(
        name="pypi-token",
        # The fixed part is the macaroon header of the Python package index.
        pattern=r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,250}",
        example="pypi-AgEIcHlwaS5vcmc" + "a1" * 30,
    ),
    Rule(name="hugging-face-token", pattern=r"hf_[A-Za-z0-9]{34}", example="hf_" + "a1" * 17),
)


MIN_SECRET_LENGTH = 8
"""Shorter values occur by chance: redacting them riddles the trace and gives the value away by its holes."""

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_DENSE_LINE = re.compile(r"[A-Za-z0-9+/=_-]{32,}", re.ASCII)


class Spelling(NamedTuple):
    """One way to write a value."""

    kind: str
    text: str
    is_cut_base64: bool = False
    """The next base64 character, if there is one, still holds some bits of the value."""


def iter_spellings(value: str) -> Iterator[Spelling]:
    """The ways in which programs write a value without meaning to hide it.

    Wire formats nest a value in JSON (twice, for tool arguments), quote it into URLs (twice, for redirects),
    and put it into base64 at any of three byte offsets (`Authorization: Basic`); result files escape it for
    XML, pages for HTML, shells quote it, test runners show it as source text, debuggers print hex, and
    `base64` and `openssl` wrap lines. Compression, encryption and the like cannot be enumerated: against an
    agent that wants a secret out, the sandbox and the gateway stand, not the redactor.
    """
    yield Spelling("plain", value)
    # The body of a key is often printed a line at a time; only lines that are no words by themselves.
    yield from (Spelling("line", line) for line in value.splitlines() if _DENSE_LINE.fullmatch(line))
    for escaped in sorted(_json_spellings(value)):
        yield Spelling("json", escaped)
        yield from (Spelling("json", twice) for twice in sorted(_json_spellings(escaped)))
    yield from (Spelling("url", quoted) for quoted in sorted(_url_spellings(value)))
    yield from (Spelling("xml", escaped) for escaped in sorted(_xml_spellings(value)))
    yield from (Spelling("html", escaped) for escaped in sorted(_html_spellings(value)))
    yield from (Spelling("shell", value.replace("'", mark)) for mark in ("'\\''", "'\"'\"'"))
    yield from (Spelling("source", literal) for literal in sorted(_source_spellings(value)))
    data = _encode(value)
    yield from (Spelling("hex", digits) for digits in sorted(_hex_spellings(data)))
    for offset in range(3):
        yield from _base64_spellings(data, offset)
    yield from (Spelling("base64", text) for text in sorted(_whole_base64_spellings(data)))


def _json_spellings(value: str) -> set[str]:
    """As the common encoders write it: minimal, ASCII-only, and with the escapes of Go and PHP."""
    minimal = json.dumps(value, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(value)[1:-1]
    html_safe = re.sub(r"[<>&\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", minimal)
    upper_hex = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda m: m[0].upper(), ascii_only)
    units = value.encode("utf-16-be", "surrogatepass").hex()
    every = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    every_upper = re.sub(r"(?<=\\u)[0-9a-f]{4}", lambda m: m[0].upper(), every)
    plain = {minimal, ascii_only, html_safe, upper_hex, every, every_upper}
    return plain | {spelling.replace("/", "\\/") for spelling in plain}


def _url_spellings(value: str) -> set[str]:
    data = _encode(value)
    once = {quote(data, safe=""), quote(data), quote(data, safe="!'()*"), quote_plus(data)}
    every = "".join(f"%{byte:02X}" for byte in data)
    quoted = once | {every} | {quote(spelling, safe="") for spelling in once}
    return quoted | {re.sub(r"%[0-9A-F]{2}", lambda m: m[0].lower(), spelling) for spelling in quoted}


def _xml_spellings(value: str) -> set[str]:
    """As element text and as an attribute: writers differ in quotation marks, and in white space."""
    text = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quotes = (("&quot;", "'"), ("&quot;", "&apos;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;"))
    attributes = {text.replace('"', double).replace("'", single) for double, single in quotes}
    referred = {
        attribute.replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", tab)
        for attribute in {text, *attributes}
        for tab in ("&#9;", "&#09;")
    }
    return {text} | attributes | referred


def _html_spellings(value: str) -> set[str]:
    """As template engines escape it: by the names of marks, or by numbers for them or for every character."""
    numbers = {
        "".join(form.format(ord(mark)) for mark in value) for form in ("&#{};", "&#x{:x};", "&#x{:X};")
    }
    marks = {
        html.escape(value).replace("&#x27;", "&#039;"),  # PHP
        html.escape(value).replace("&#x27;", "&#39;").replace("/", "&#x2F;"),  # Mustache and others
        html.escape(value).replace("/", "&#x2F;").replace("`", "&#x60;").replace("=", "&#x3D;"),
    }
    return numbers | marks


def _hex_spellings(data: bytes) -> set[str]:
    r"""As digits alone, and as tools set bytes apart: `\x73\x33`, `73 33`, `73:33`, `73-33`."""
    plain = {"".join(f"\\x{byte:02x}" for byte in data), *(data.hex(mark) for mark in " :-"), data.hex()}
    return plain | {re.sub(r"[0-9a-f]{2}", lambda m: m[0].upper(), spelling) for spelling in plain}


def _source_spellings(value: str) -> set[str]:
    """As a literal of Python, which failing assertions show; most other languages write the same."""
    plain = {repr(value)[1:-1], ascii(value)[1:-1]}
    return plain | {spelling.replace("'", "\\'") for spelling in plain if "\\'" not in spelling}


def _encode(value: str) -> bytes:
    """The bytes that an environment variable had, undecodable ones included."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _base64_spellings(data: bytes, offset: int) -> Iterator[Spelling]:
    """Base64 of `data` when it begins `offset` bytes into a group of three.

    Only the characters that the value alone decides are literal. The one before them holds at most four bits
    of the value and stays in the text.
    """
    first = -(-offset * 8 // 6)
    last, remaining_bits = divmod((offset + len(data)) * 8, 6)
    standard = base64.b64encode(bytes(offset) + data)[first:last].decode()
    for text in (standard, standard.translate(str.maketrans("+/", "-_"))):
        yield Spelling("base64", text, remaining_bits > 0)


def _whole_base64_spellings(data: bytes) -> Iterator[str]:
    """Base64 of the value alone, where its own marks are escaped, or where it is wrapped as tools do it."""
    whole = base64.b64encode(data).decode()
    safe = base64.urlsafe_b64encode(data).decode()
    yield from {whole.replace("/", "\\/"), quote(whole, safe=""), quote(whole), quote(safe, safe="")}
    for width in _WRAP_WIDTHS:
        lines = [whole[at : at + width] for at in range(0, len(whole), width)]
        if len(lines) > 1:
            yield from (mark.join(lines) for mark in ("\n", "\r\n", "\\n", "\\r\\n"))


def build_literal_pattern(texts: Iterable[str]) -> str:
    """One regular expression that matches the longest of the texts at each place.

    A trie instead of a flat alternation: each position of the scanned text is compared once for each first
    character, not once for each spelling of each secret.
    """
    groups: dict[str, list[str]] = {}
    for text in sorted(set(texts)):
        groups.setdefault(text[:1], []).append(text)
    optional = "?" if groups.pop("", None) else ""
    branches = []
    for members in groups.values():
        shared = _common_prefix(members[0], members[-1])
        branches.append(re.escape(shared) + build_literal_pattern(text[len(shared) :] for text in members))
    if not branches:
        return ""
    return branches[0] if len(branches) == 1 and not optional else f"(?:{'|'.join(branches)}){optional}"


def _common_prefix(first: str, last: str) -> str:
    """Of a sorted list, what its ends share is shared by all."""
    length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:length]
