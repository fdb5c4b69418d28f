"""Edits for agents that have nothing but a shell: POSIX words only, as an environment may have no Python."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath


def build_read_command(path: str) -> str:
    return f"cat {shlex.quote(path)}"


def build_write_command(path: str, content: str) -> str:
    """One line that writes a file, and its directory if need be."""
    target = shlex.quote(path)
    parent = PurePosixPath(path).parent
    make = "" if str(parent) in {".", "/"} else f"mkdir -p {shlex.quote(str(parent))} && "
    return f"{make}{_print(content)} > {target}"


def build_edit_command(path: str, old: str, new: str) -> str:
    """One line that replaces the first place where `old` stands, and fails where it stands nowhere."""
    target = shlex.quote(path)
    return (
        f"old=$({_print(old)}; printf .) && old=${{old%.}}"
        f" && new=$({_print(new)}; printf .) && new=${{new%.}}"
        # A substitution drops line ends; the dot keeps them.
        f" && all=$(cat {target} && printf .) && all=${{all%.}}"
        ' && case $all in *"$old"*)'
        f' printf %s%s%s "${{all%%"$old"*}}" "$new" "${{all#*"$old"}}" > {target} ;;'
        f" *) echo 'the text to replace is not there' >&2; false ;; esac"
    )


def _print(text: str) -> str:
    """A command that prints exactly this; line ends stand between arguments, so that it stays one line."""
    *lines, last = text.split("\n")
    printed = []
    if lines:
        printed.append("printf '%s\\n' " + " ".join(shlex.quote(line) for line in lines))
    if last or not lines:
        printed.append(f"printf %s {shlex.quote(last)}")
    return printed[0] if len(printed) == 1 else "{ " + "; ".join(printed) + "; }"
