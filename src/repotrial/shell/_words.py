"""Words of a script: quotes removed, known variables and braces filled in, unknown parts marked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from tree_sitter import Node

from repotrial.shell._model import Word

_MAX_OUTPUT_CHARACTERS: Final = 64 * 1024
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|(.))", re.DOTALL
)
_MAX_CODE_POINT: Final = 0x10FFFF


def decode_escapes(text: str) -> str:
    r"""Text with `\n`, `\x72`, `\162` and `\u0072` as the shell reads them in `$'…'`."""
    return _ESCAPE.sub(_decode, text)


def _decode(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal is not None:
        point = int(hexadecimal, 16)
        return chr(point) if 0 < point <= _MAX_CODE_POINT and not 0xD800 <= point < 0xE000 else "\ufffd"  # noqa: PLR2004 -- surrogates
    if match[4] is not None:
        return chr(int(match[4], 8) & 0xFF) if int(match[4], 8) & 0xFF else "\ufffd"
    return _SIMPLE.get(match[5], match[0])


def find_output(name: str, arguments: tuple[str, ...], given: str | None) -> str | None:
    """What a program prints for static arguments and the input `given`; None where that is not known."""
    output: str | None = None
    match name:
        case "echo":
            output = _echo(arguments)
        case "printf":
            output = _printf(arguments)
        case "cat" if given is not None and not [each for each in arguments if each != "-"]:
            output = given
        case "tee" if given is not None:
            output = given
        case "rev" if given is not None and not arguments:
            output = "\n".join(line[::-1] for line in given.split("\n"))
        case "base64" | "base32" | "xxd" | "openssl" if given is not None:
            output = _decode_bytes(name, arguments, given)
        case _:
            pass
    return output if output is None or len(output) <= _MAX_OUTPUT_CHARACTERS else None


def _echo(arguments: tuple[str, ...]) -> str:
    reads_escapes = ends_line = False
    words = list(arguments)
    while words and re.fullmatch(r"-[neE]+", words[0]):
        reads_escapes = reads_escapes or "e" in words[0]
        ends_line = ends_line or "n" in words[0]
        del words[0]
    text = " ".join(words)
    return (decode_escapes(text) if reads_escapes else text) + ("" if ends_line else "\n")


def _printf(arguments: tuple[str, ...]) -> str | None:
    words = list(arguments[1:] if arguments[:1] == ("--",) else arguments)
    if not words or words[0] == "-v":
        return None
    form, values = decode_escapes(words[0]), words[1:]
    if re.search(r"%(?![sb%])", form):
        return None
    count = len(re.findall(r"%[sb]", form))
    if not count:
        return form.replace("%%", "%")
    starts = range(0, max(len(values), 1), count)
    return "".join(_fill(form, iter(values[first : first + count])) for first in starts)


def _fill(form: str, values: Iterator[str]) -> str:
    def take(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        value = next(values, "")
        return decode_escapes(value) if found[1] == "b" else value

    return re.sub(r"%([sb%])", take, form)


def _decode_bytes(name: str, arguments: tuple[str, ...], given: str) -> str | None:
    compact = "".join(given.split())
    try:
        if name == "xxd":
            is_decoding = any(each.startswith("-") and "r" in each for each in arguments)
            return bytes.fromhex(compact).decode() if is_decoding else None
        is_decoding = any(each in {"-d", "-D", "--decode", "-di", "-id"} for each in arguments)
        if not is_decoding:
            return None
        if name == "base32":
            return base64.b32decode(compact).decode()
        ignores = any(each in {"-i", "--ignore-garbage", "-di", "-id"} for each in arguments)
        return base64.b64decode(compact, validate=not ignores).decode()
    except (ValueError, binascii.Error):
        return None


WORD_TYPES: Final = frozenset(
    {
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "brace_expression",
        "extglob_pattern",
        "regex",
        "variable_name",
        "special_variable_name",
        "command_name",
    }
)
QUOTED_TYPES: Final = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
_SPLIT: Final = "\0"
"""Where an unquoted variable's value falls apart into words; no word of a shell can hold it."""
_DEFAULT = re.compile(r"\$\{(\w+):?-([^${}`'\"]*)\}")
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_RUNS = re.compile(r"`|\$\(")
_MAX_WORDS: Final = 64
_MAX_CHARACTERS: Final = 32_768
"""Of a word that values make longer than it is written."""
_MAX_DEPTH: Final = 40


class Variables:
    """What is known about variables and the working directory."""

    def __init__(self, variables: dict[str, str | None], cwd: str | None) -> None:
        self.variables = variables
        self.cwd = cwd
        self.previous: str | None = None
        """Where `cd -` leads."""

    def fork(self) -> Variables:
        """What a subshell starts with."""
        return Variables(dict(self.variables), self.cwd)

    def find(self, name: str) -> str | None:
        """A variable's value; None where it is not known."""
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return "~"
        return self.cwd if name == "PWD" else None


class _Part(msgspec.Struct, frozen=True):
    text: str
    is_static: bool = True


class WordReader:
    """Turns nodes of the grammar into words."""

    def __init__(self, original: bytes, offset: int, substitute: Callable[[Node], str | None]) -> None:
        self._original = original
        self._offset = offset
        self._substitute = substitute

    def text_of(self, node: Node) -> str:
        """The node's text as it is written."""
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        return self._original[self._offset + start : self._offset + end].decode("utf-8", "replace")

    def read(self, node: Node, scope: Variables) -> tuple[Word, ...]:
        """The words that a node becomes: one, or several where an unquoted value or braces fall apart."""
        part = self._expand(node, scope, depth=0, quoted=False)
        is_quoted = _has_quotes(node)
        texts = [part.text]
        if part.is_static and not is_quoted and "{" in part.text:
            texts = _expand_braces(part.text)
        words = [piece for text in texts for piece in text.split(_SPLIT) if piece or is_quoted]
        if _SPLIT not in part.text and len(texts) == 1:
            words = texts
        verbatim = self._find_verbatim(node, part)
        return tuple(
            Word(
                text=text,
                is_static=part.is_static,
                is_quoted=is_quoted,
                start=self._offset + node.start_byte,
                end=self._offset + node.end_byte,
                verbatim_start=verbatim if len(words) == 1 else None,
            )
            for text in words[:_MAX_WORDS]
        )

    def read_one(self, node: Node, scope: Variables) -> Word:
        """The same without falling apart, as in assignments and redirections."""
        part = self._expand(node, scope, depth=0, quoted=False)
        return Word(
            text=part.text.replace(_SPLIT, " "),
            is_static=part.is_static,
            is_quoted=_has_quotes(node),
            start=self._offset + node.start_byte,
            end=self._offset + node.end_byte,
            verbatim_start=self._find_verbatim(node, part),
        )

    def _find_verbatim(self, node: Node, part: _Part) -> int | None:
        start = node.start_byte + (1 if node.type in {"string", "raw_string"} else 0)
        end = start + len(part.text.encode("utf-8", "replace"))
        return self._offset + start if self.slice(start, end) == part.text else None

    def _expand(self, node: Node, scope: Variables, *, depth: int, quoted: bool) -> _Part:
        raw = self.text_of(node)
        if depth > _MAX_DEPTH:
            self._fill(node, raw)
            return _Part(raw, is_static=False)
        part = self._expand_node(node, raw, scope, depth=depth, quoted=quoted)
        is_short = len(part.text) <= max(_MAX_CHARACTERS, len(raw))
        return part if is_short else _Part(raw, is_static=False)

    def _expand_node(self, node: Node, raw: str, scope: Variables, *, depth: int, quoted: bool) -> _Part:
        match node.type:
            case "raw_string":
                return _Part(raw[1:-1])
            case "ansi_c_string":
                return _Part(decode_escapes(raw[2:-1]))
            case "string" | "translated_string":
                return self._expand_string(node, scope, depth=depth)
            case "simple_expansion" | "expansion":
                self._fill(node, raw)
                return self._expand_variable(raw, scope, quoted=quoted)
            case "command_substitution":
                return self._expand_substitution(node, raw, quoted=quoted)
            case "process_substitution":
                self._substitute(node)
                return _Part(raw, is_static=False)
            case "arithmetic_expansion":
                self._fill(node, raw)
                return _Part(raw, is_static=False)
            case "command_name" | "concatenation":
                parts = list(self._iter_parts(node, scope, depth=depth))
                return _Part("".join(part.text for part in parts), all(part.is_static for part in parts))
            case _:
                return _Part(_unescape(raw))

    def _iter_parts(self, node: Node, scope: Variables, *, depth: int) -> Iterator[_Part]:
        position = node.start_byte
        for child in node.children:
            gap = self.slice(position, child.start_byte)
            if gap and not gap.isspace():
                yield _Part(_unescape(gap))
            position = child.end_byte
            yield self._expand(child, scope, depth=depth + 1, quoted=False)

    def _expand_string(self, node: Node, scope: Variables, *, depth: int) -> _Part:
        """The grammar leaves some blanks between nodes, so what lies between them counts as well."""
        pieces: list[_Part] = []
        start = position = node.start_byte + (2 if self.text_of(node).startswith("$") else 1)
        for child in node.children:
            if child.start_byte < start or not child.is_named or child.type in {"string_content", "ERROR"}:
                continue
            pieces.append(_Part(_unescape_quoted(self.slice(position, child.start_byte))))
            pieces.append(self._expand(child, scope, depth=depth + 1, quoted=True))
            position = child.end_byte
        end = node.end_byte - (1 if self.text_of(node).endswith('"') else 0)
        pieces.append(_Part(_unescape_quoted(self.slice(position, max(position, end)))))
        return _Part("".join(piece.text for piece in pieces), all(piece.is_static for piece in pieces))

    def _expand_variable(self, raw: str, scope: Variables, *, quoted: bool) -> _Part:
        name = raw.strip("${}")
        if name == "IFS":
            return _Part(" " if quoted else _SPLIT)
        value = scope.find(name)
        if value is not None:
            return _Part(value if quoted else re.sub(r"\s+", _SPLIT, value))
        if (found := _DEFAULT.fullmatch(raw)) is not None:
            known = scope.find(found[1])
            return _Part(found[2] if known is None else known, is_static=known is not None)
        return _Part(raw, is_static=False)

    def _fill(self, node: Node, raw: str) -> None:
        """`${x:-$(…)}` and `$((1 + $(…)))` run commands, whatever the word becomes."""
        if _RUNS.search(raw, len("${")) is not None:
            self._substitute(node)

    def _expand_substitution(self, node: Node, raw: str, *, quoted: bool) -> _Part:
        output = self._substitute(node)
        if output is None:
            return _Part(raw, is_static=False)
        output = output.rstrip("\n")
        return _Part(output if quoted else re.sub(r"\s+", _SPLIT, output))


def _has_quotes(node: Node) -> bool:
    return node.type in QUOTED_TYPES or any(child.type in QUOTED_TYPES for child in node.children)


def _unescape(text: str) -> str:
    """Backslashes of an unquoted word."""
    return re.sub(r"\\(\n|.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _unescape_quoted(text: str) -> str:
    """Backslashes between double quotes: only before what would be special there."""
    return re.sub(r"\\([\n$`\"\\])", lambda found: "" if found[1] == "\n" else found[1], text)


def _expand_braces(text: str) -> list[str]:
    done: list[str] = []
    waiting = [text]
    while waiting and len(done) + len(waiting) <= _MAX_WORDS:
        current = waiting.pop(0)
        found = _BRACES.search(current)
        if found is None:
            done.append(current)
            continue
        waiting = [
            current[: found.start()] + choice + current[found.end() :] for choice in found[1].split(",")
        ] + waiting
    return done or [text]
