"""The function that changes an expected value at run time, where no literal of the file decides it."""

from __future__ import annotations

_TEMPLATE = """\
def {name}(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        other = value + {step} + abs(value)
        return object() if other == value else other
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "{letter}"
    if isinstance(value, (bytes, bytearray)):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else type(value)(b"{letter}")
    if type(value) in (list, tuple):
        return value[:-1] + type(value)([{name}(value[-1])]) if value else type(value)([{step}])
    if type(value) in (set, frozenset):
        return value ^ {{"{letter}{step}"}}
    if type(value) is dict:
        return {{**value, "{letter}{step}": value.get("{letter}{step}", {step}) == {step}}}
    return object()
"""


def build_helper(name: str, *, step: int, letter: str) -> str:
    """Its source; a value of a type that it does not know gives way to an object that equals nothing."""
    return _TEMPLATE.format(name=name, step=step, letter=letter)
