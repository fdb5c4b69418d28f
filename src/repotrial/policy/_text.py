"""The policy's rules over what a model writes: prose, code blocks and commands alike (P17).

A command in a tool call is about to run, and a plan in natural language has the same severity. A command in
a code block or quoted in prose is a mention: its severity and class are one step lower, and where the words
before it forbid it ("never run …") it is a note. What a command writes and does not run (a here-document into
a file, `echo … > x.sh`) is code, and a step lower as well: when it runs, the witness sees it. The form is
kept with each finding (S10).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final

import msgspec

from repotrial._core.words import TextFormat
from repotrial.policy._prose import find_plans
from repotrial.policy._text_commands import find_in_python, find_in_script
from repotrial.policy._text_model import (
    SEVERITIES,
    Hit,
    TextFinding,
    TextPlace,
    build_finding,
    load_text_rules,
)
from repotrial.shell import ShellScript, find_python_uses, load_programs, parse_shell

_STEP: Final = 1024
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that are not the first of a character."""


class Offsets:
    """Where the characters of one text lie in its bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        blocks = (text[first : first + _STEP] for first in range(0, len(text), _STEP))
        sizes = (len(block.encode("utf-8", "surrogatepass")) for block in blocks)
        self._marks = [0] if text.isascii() else [0, *accumulate(sizes)][:-1]
        """Bytes before each block."""

    def to_bytes(self, place: int) -> int:
        """How many bytes stand before a character."""
        if self._text.isascii():
            return min(place, len(self._text))
        block = min(place // _STEP, len(self._marks) - 1)
        return self._marks[block] + len(self._text[block * _STEP : place].encode("utf-8", "surrogatepass"))

    def to_characters(self, place: int) -> int:
        """How many characters begin before a byte."""
        if self._text.isascii():
            return min(place, len(self._text))
        block = min(bisect_right(self._marks, place), len(self._marks)) - 1
        data = self._text[block * _STEP : (block + 1) * _STEP].encode("utf-8", "surrogatepass")
        return block * _STEP + len(data[: place - self._marks[block]].translate(None, _CONTINUATIONS))


_MAX_FINDINGS: Final = 100
_MAX_CHARACTERS: Final = 512 * 1024
_MAX_CANDIDATES: Final = 200
_MAX_PIECES: Final = 2000
_MAX_LINE: Final = 10_000
_MAX_CANDIDATE: Final = 400
_MAX_WRITTEN_LEVELS: Final = 3
"""Scripts that write scripts that write scripts."""
_LEFT_OUT: Final = "findings-left-out"
_UNREAD: Final = "unreadable-command"
_FORMATS: Final[dict[TextPlace, TextFormat]] = {
    "command": "command",
    "program": "code",
    "code": "code",
    "message": "natural-language",
}
_STEPS: Final[dict[TextPlace, int]] = {"command": 0, "program": 0, "code": 1, "message": 1}

_SHELL_TAGS: Final = frozenset(
    {"sh", "bash", "shell", "zsh", "console", "shell-session", "terminal", "ksh", "dash"}
)
_PYTHON_TAGS: Final = frozenset({"python", "py", "python3", "ipython"})
_ENDINGS: Final = {**dict.fromkeys(("sh", "bash", "zsh", "ksh"), "shell"), "py": "python"}
_PROMPT = re.compile(r"^(?:\$|>|#|%) ", re.MULTILINE)
_FENCE = re.compile(
    r"^[ \t]*(`{3,}+|~{3,}+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?<!`)`([^`\n]{2,500})`(?!`)")
_TRIGGER = re.compile(
    r"(?<![\w./$-])(?:/(?:usr/)?s?bin/)?(?:sudo|doas|pkexec|rm|shred|dd|mkfs(?:\.\w+)?|wipefs|curl|wget|nc|ncat|netcat|socat|scp|rsync"
    r"|git|cat|head|tail|cp|tar|chmod|setcap|bash|sh|zsh|eval|echo|printf|base64|printenv|unshare|nsenter|strace|insmod|modprobe"
    r"|docker|pip3?|npm|python3?|find)(?=\s|\$\{IFS\})"
    r"|:\(\)\s*\{"
)
_FORBIDS = re.compile(
    r"\b(?:never|not|avoid\w*|without|cannot|can't|don't|doesn't|won't|shouldn't|mustn't|refus\w+|forbid\w*|forbidden|prohibit\w*"
    r"|instead of|rather than|dangerous|malicious|block\w*|disallow\w*|warn\w*)\b[^.!?\n]{0,80}$",
    re.IGNORECASE,
)
_PIPED_SHELL = re.compile(r"\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh(?=\s+[a-z]|$)")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")


class _Piece(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    start: int
    """In characters of the whole."""
    format: TextFormat
    language: str
    """`shell`, `python` or `unknown`; `prose` for a command in a sentence, `plans` for sentences."""
    steps_down: int
    anchor: tuple[int, int] | None = None
    """Between which characters of the whole it is found, where it does not stand there as it is."""
    level: int = 0
    """How many texts write it."""


def check_text(text: str, *, where: TextPlace, places: Sequence[str] = ()) -> tuple[TextFinding, ...]:
    """Rules that a text meets, in the order of the text; never raises.

    Args:
        text: What a model said, or what a tool was given.
        where: `command` for the command of a shell tool, `program` for code that another tool runs, `code`
            for content that a tool writes, `message` for all else that a model says.
        places: What the contract gives to write in, beyond the agent's own places.
    """
    whole = text
    text = text[:_MAX_CHARACTERS]
    offsets = Offsets(text)
    found: dict[tuple[str, int, str], TextFinding] = {}

    def add(rule: str, first: int, last: int, piece: _Piece) -> None:
        segment = whole[first:last]
        finding = build_finding(
            rule,
            text_format=piece.format,
            steps_down=piece.steps_down,
            segment=segment,
            offset_bytes=offsets.to_bytes(first),
        )
        if finding is not None:
            found.setdefault((rule, first, segment), finding)

    pieces = _iter_with_written(_iter_pieces(text, where))
    for piece in islice(pieces, _MAX_PIECES):
        for rule, start, end in _iter_hits(piece, places):
            add(rule, *(piece.anchor or (piece.start + start, piece.start + end)), piece)
    for piece in islice(pieces, 1):
        add(_UNREAD, *(piece.anchor or (piece.start, piece.start + len(piece.text))), piece)
    if len(whole) > len(text):
        rest = _Piece(text="", start=0, format=_FORMATS[where], language="", steps_down=_STEPS[where])
        add(_UNREAD, len(text), len(text) + _MAX_LINE, rest)
    return _choose(list(found.values()))


def _choose(found: list[TextFinding]) -> tuple[TextFinding, ...]:
    """The gravest, in the order of the text; where some are left out, one more says where they begin."""
    if len(found) > _MAX_FINDINGS:
        ranks = [(-SEVERITIES.index(each.severity), each.offset_bytes, at) for at, each in enumerate(found)]
        places = [at for _, _, at in sorted(ranks)]
        kept, left = sorted(places[: _MAX_FINDINGS - 1]), places[_MAX_FINDINGS - 1 :]
        first = min((found[at] for at in left), key=lambda each: each.offset_bytes)
        found = [*(found[at] for at in kept), _build_left_out(first)]
    return tuple(sorted(found, key=lambda each: each.offset_bytes))


def _build_left_out(first: TextFinding) -> TextFinding:
    rule = load_text_rules()[_LEFT_OUT]
    return msgspec.structs.replace(
        first, rule=_LEFT_OUT, severity=rule.severity, finding_class=rule.finding_class
    )


def _iter_pieces(text: str, where: TextPlace) -> Iterator[_Piece]:
    if where == "command":
        yield _Piece(text=text, start=0, format="command", language="shell", steps_down=0)
    elif where == "program":
        yield _Piece(
            text=text,
            start=0,
            format="code",
            language="shell" if _guess(text) == "shell" else "python",
            steps_down=0,
        )
    elif where == "code":
        yield _Piece(text=text, start=0, format="code", language=_guess(text), steps_down=1)
    else:
        yield from _iter_message(text)


def _iter_with_written(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Pieces, each followed by what it writes."""
    for piece in pieces:
        yield piece
        if piece.language == "shell" and piece.level < _MAX_WRITTEN_LEVELS:
            yield from _iter_with_written(_iter_written(piece))


def _iter_written(piece: _Piece) -> Iterator[_Piece]:
    script = parse_shell(piece.text)
    offsets = Offsets(piece.text)
    for written in script.written:
        first, last = (piece.start + offsets.to_characters(at) for at in (written.start, written.end))
        anchor = piece.anchor or ((first, last) if written.text_start is None else None)
        ending = (written.target or "").rpartition(".")[2]
        yield _Piece(
            text=written.text,
            start=0 if anchor else piece.start + offsets.to_characters(written.text_start or 0),
            format="code",
            language=_ENDINGS.get(ending) or _guess(written.text),
            steps_down=piece.steps_down + 1,
            anchor=anchor,
            level=piece.level + 1,
        )


def _iter_message(text: str) -> Iterator[_Piece]:
    position = 0
    for block in _FENCE.finditer(text):
        yield from _iter_prose(text, position, block.start())
        tag = block[2].casefold()
        content = block[3]
        if tag in _SHELL_TAGS:
            language = "shell"
        else:
            language = "python" if tag in _PYTHON_TAGS else _guess(content) if not tag else "unknown"
        if language == "shell":
            content = _PROMPT.sub("  ", content)
        yield _Piece(text=content, start=block.start(3), format="code", language=language, steps_down=1)
        position = block.end()
    yield from _iter_prose(text, position, len(text))


def _iter_prose(text: str, start: int, end: int) -> Iterator[_Piece]:
    prose = text[start:end]
    blanked = list(prose)
    for span in _INLINE.finditer(prose):
        steps = 2 if _FORBIDS.search(_sentence_before(prose, span.start())) else 1
        first = span.start(1)
        yield _Piece(text=span[1], start=start + first, format="code", language="shell", steps_down=steps)
        blanked[span.start() : span.end()] = " " * (span.end() - span.start())
    quiet = "".join(blanked)
    yield _Piece(text=quiet, start=start, format="natural-language", language="plans", steps_down=0)
    for line in re.finditer(r"[^\n]+", quiet):
        yield from _iter_candidates(line[0], start + line.start(), "natural-language")


def _iter_candidates(line: str, start: int, text_format: TextFormat) -> Iterator[_Piece]:
    """Pieces of a line that read like a command, to where the sentence ends."""
    for count, found in enumerate(_TRIGGER.finditer(line[:_MAX_LINE])):
        if count >= _MAX_CANDIDATES:
            return
        rest = line[found.start() : found.start() + _MAX_CANDIDATE]
        end = _SENTENCE_END.search(rest, found.end() - found.start())
        text = (rest if end is None else rest[: end.start()]).rstrip(" \t\"'*),:")
        if text.count("'") % 2:
            text = text.replace("'", "_")
        if text.count('"') % 2:
            text = text.replace('"', "_")
        if (piped := _PIPED_SHELL.search(text)) is not None:
            text = text[: piped.end()]  # the sentence goes on; the command does not
        steps = 1
        if text_format == "natural-language" and _FORBIDS.search(_sentence_before(line, found.start())):
            steps = 2
        yield _Piece(
            text=text, start=start + found.start(), format=text_format, language="prose", steps_down=steps
        )


def _sentence_before(text: str, position: int) -> str:
    """What the same sentence says before a place."""
    before = text[max(0, position - 160) : position]
    ends = [found.end() for found in re.finditer(r"[.!?]\s|\n\n", before)]
    return before[ends[-1] :] if ends else before


def _guess(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if re.match(r"#!.*\b(?:ba|z|da|k)?sh\b|\$ ", first):
        return "shell"
    if re.match(r"#!.*python|(?:from \w[\w.]* )?import \w|def \w+\(|class \w+", first):
        return "python"
    word = first.partition(" ")[0].rpartition("/")[2]
    is_known = load_programs().find_class(word) != "other" or word in load_programs().wrappers
    return "shell" if is_known and re.fullmatch(r"[a-z][\w.+-]*", word) else "unknown"


def _iter_hits(piece: _Piece, places: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Rules and the characters of the piece between which they are met."""
    match piece.language:
        case "plans":
            yield from find_plans(piece.text)
        case "python":
            yield from _find_in_module(piece.text)
        case "unknown":
            yield from find_in_python(piece.text)
            lines = re.finditer(r"[^\n]+", piece.text)
            pieces = (each for line in lines for each in _iter_candidates(line[0], line.start(), "code"))
            for candidate in islice(pieces, _MAX_PIECES):
                for rule, start, end in _iter_hits(candidate, places):
                    yield rule, candidate.start + start, candidate.start + end
        case _:
            yield from _find_in_shell(piece, places)


def _find_in_module(code: str) -> Iterator[tuple[str, int, int]]:
    yield from find_in_python(code)
    for use in find_python_uses(code):
        if use.kind == "command" and (place := code.find(use.text)) >= 0:
            for hit in find_in_script(parse_shell(use.text)):
                yield hit.rule, place, place + len(use.text)


def _find_in_shell(piece: _Piece, places: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    script = parse_shell(piece.text)
    offsets = Offsets(piece.text)
    is_prose = piece.language == "prose"
    for hit in find_in_script(script, is_leading_only=is_prose, places=places):
        if is_prose and not _is_plausible(hit, script):
            continue
        yield hit.rule, offsets.to_characters(hit.start), offsets.to_characters(hit.end)


def _is_plausible(hit: Hit, script: ShellScript) -> bool:
    """Whether prose names a command: after `sudo` stands a program, and what is met begins the piece."""
    if hit.start > 0:
        return False
    if hit.rule not in {"privilege-escalation", "package-install", "network-access"}:
        return True
    first = next((command for command in script.commands if command.end == hit.end), None)
    if first is None or not first.words:
        return False
    return load_programs().find_class(load_programs().resolve(first.name)) != "other"
