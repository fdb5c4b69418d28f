"""What simple programs print, where their words say it: encoders must not hide a command."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

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
    pieces = []
    for first in range(0, max(len(values), 1), count):
        group = iter(values[first : first + count])
        pieces.append(_fill(form, group))
    return "".join(pieces)


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
