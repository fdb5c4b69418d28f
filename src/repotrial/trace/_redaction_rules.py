"""Patterns for secrets whose value nobody declared: few, and each with an unmistakable mark.

A pattern that also fires on ordinary text gets the whole scanner switched off, so only shapes with a long
fixed mark are here; key ids that open nothing (AWS `AKIA…`), JWTs in test data and "high entropy" are left
out. Patterns look at no neighboring characters and have bounded repeats: the first keeps redaction
idempotent, the second keeps it linear in the text, whatever an agent prints. Examples are put together from
pieces, so that other people's scanners do not stop at this file.
"""

from __future__ import annotations

import msgspec


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
