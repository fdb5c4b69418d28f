"""Shell scripts as data: grammar, words, programs, accesses."""

from __future__ import annotations

from repotrial.shell._accesses import FileAccess, find_file_accesses
from repotrial.shell._commands import classify_command, find_classes, find_installs, is_test_command
from repotrial.shell._model import ShellCommand, ShellScript, Word
from repotrial.shell._programs import load_programs
from repotrial.shell._purposes import Purpose, find_purpose
from repotrial.shell._python_code import find_python_uses
from repotrial.shell._script import parse_shell

__all__ = [
    "FileAccess",
    "Purpose",
    "ShellCommand",
    "ShellScript",
    "Word",
    "classify_command",
    "find_classes",
    "find_file_accesses",
    "find_installs",
    "find_purpose",
    "find_python_uses",
    "is_test_command",
    "load_programs",
    "parse_shell",
]
