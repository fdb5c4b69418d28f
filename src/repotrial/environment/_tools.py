"""What is known about tools, as data: their programs, how they say their version, where homes keep them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

import msgspec

Version = tuple[int, ...]

_CLAUSE = re.compile(r"\s*(==|>=|<=|>|<|~=|!=)\s*([0-9][0-9A-Za-z.+-]*)\s*", re.ASCII)
_NUMBERS = re.compile(r"[vV]?([0-9]{1,100}(?:\.[0-9]{1,100})*)", re.ASCII)


def parse_version(text: str) -> Version | None:
    """The leading numbers of a version; None if there are none."""
    match = _NUMBERS.match(text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else None


def meets(version: str, constraint: str) -> bool:
    """Whether a version meets every clause; what cannot be read is not met."""
    found = parse_version(version)
    return found is not None and all(_meets_clause(found, clause) for clause in constraint.split(","))


def _meets_clause(found: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    wanted = parse_version(match[2]) if match else None
    if match is None or wanted is None:
        return False
    # `3.11` and `3.11.0` are the same version.
    length = max(len(found), len(wanted))
    left, right = _padded(found, length), _padded(wanted, length)
    if match[1] == "~=":  # `~=3.11.2` accepts 3.11.2 and every later 3.11
        return left >= right and left[: len(wanted) - 1] == wanted[:-1]
    return _COMPARISONS[match[1]](left, right)


_COMPARISONS: dict[str, Callable[[Version, Version], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def _padded(numbers: Version, length: int) -> Version:
    return numbers + (0,) * (length - len(numbers))


SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs of the system are, inside and outside."""

HOME_LAYOUTS = (
    ".pyenv/versions/*",
    ".rustup/toolchains/*",
    ".nvm/versions/node/*",
    ".asdf/installs/*/*",
    ".local/share/mise/installs/*/*",
    ".local/share/uv/python/*",
    ".local/share/fnm/node-versions/*/installation",
    ".sdkman/candidates/*/*",
    ".local/share/pnpm/nodejs/*",
)
"""Directories below a home that hold one whole tool each, with its programs in `bin`, and nothing private.

Shims (`.pyenv/shims`, `.cargo/bin`) are left out on purpose: they choose a version by looking around.
"""

_VERSION = r"([0-9]+(?:\.[0-9]+)*[0-9A-Za-z.+~-]*)"


class ToolRule(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool is found and asked."""

    programs: tuple[str, ...]
    """Names of its program, the best first."""
    aliases: tuple[str, ...] = ()
    """Names under which commands expect it."""
    arguments: tuple[str, ...] = ("--version",)
    pattern: str = r"(?<![0-9A-Za-z.])v?" + _VERSION.replace("*[", "+[", 1)
    """Its version is the first group of the first match."""
    libraries: tuple[str, ...] = ()
    """Arguments that make it say where its standard library is: absolute paths, one on a line; a file stands
    for its directory. None where the library is in the program, or below its own prefix."""
    package: str = ""
    """What Debian calls it."""
    source: str = ""
    """Where else to get it: for tools of which Debian's version is often too old."""


_PYTHONS = tuple(f"python3.{minor}" for minor in range(19, 10, -1))

_PYTHON_PLACES = (
    "import site, sysconfig as s; "
    "print(s.get_path('stdlib'), s.get_path('platstdlib'), *site.getsitepackages(), sep='\\n')"
)

_RUST = "Rust from https://rustup.rs"

_RULES: dict[str, ToolRule] = {
    "python": ToolRule(
        programs=("python3", "python", *_PYTHONS),
        aliases=("python", "python3"),
        # Its version, said by something that proves the library to be readable too.
        arguments=("-I", "-c", "import platform; print('Python', platform.python_version())"),
        pattern=rf"Python {_VERSION}",
        libraries=("-I", "-c", _PYTHON_PLACES),
        package="python3 python3-venv",
    ),
    "node": ToolRule(
        programs=("node", "nodejs"), aliases=("node",), pattern=rf"v{_VERSION}", package="nodejs"
    ),
    "pip": ToolRule(programs=("pip3", "pip"), pattern=rf"pip {_VERSION}", package="python3-pip"),
    "npm": ToolRule(programs=("npm",), pattern=rf"^{_VERSION}", package="npm"),
    "git": ToolRule(programs=("git",), pattern=rf"git version {_VERSION}", libraries=("--exec-path",)),
    "bash": ToolRule(programs=("bash",), pattern=rf"version {_VERSION}"),
    "make": ToolRule(programs=("make", "gmake"), aliases=("make",), pattern=rf"GNU Make {_VERSION}"),
    "gcc": ToolRule(programs=("gcc",), pattern=rf"\) {_VERSION}", libraries=("-print-libgcc-file-name",)),
    "clang": ToolRule(
        programs=("clang",), pattern=rf"clang version {_VERSION}", libraries=("-print-resource-dir",)
    ),
    "cargo": ToolRule(programs=("cargo",), pattern=rf"cargo {_VERSION}", source=_RUST),
    "rustc": ToolRule(
        programs=("rustc",),
        pattern=rf"rustc {_VERSION}",
        libraries=("--print", "target-libdir"),
        source=_RUST,
    ),
    "go": ToolRule(
        programs=("go",),
        arguments=("version",),
        pattern=rf"go{_VERSION}",
        libraries=("env", "GOROOT"),
        package="golang-go",
    ),
    "java": ToolRule(
        programs=("java",), pattern=rf"(?:openjdk|java) {_VERSION}", package="default-jdk-headless"
    ),
    "perl": ToolRule(
        programs=("perl",),
        pattern=rf"\(v{_VERSION}\)",
        libraries=("-e", r'print map { "$_\n" } grep { -d } @INC'),
    ),
    "ruby": ToolRule(programs=("ruby",), pattern=rf"ruby {_VERSION}", libraries=("-e", "puts $LOAD_PATH")),
    "cmake": ToolRule(programs=("cmake",), pattern=rf"cmake version {_VERSION}"),
}


def list_known_tools() -> tuple[str, ...]:
    """All that have a rule of their own."""
    return tuple(_RULES)


def find_rule(name: str) -> ToolRule:
    """The rule for a tool; an unknown one is asked in the way that most tools answer."""
    return _RULES.get(name, ToolRule(programs=(name,)))


def parse_version_output(rule: ToolRule, output: str) -> str | None:
    """The version that a tool printed; None if it printed none."""
    match = re.search(rule.pattern, output, flags=re.MULTILINE | re.ASCII)
    return match[1].rstrip(".+~-") if match else None
