"""A tree of Python packages, made independent of where it lies and of what made it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from pathlib import Path

from repotrial.environment._packages import PACKAGE_BUILD_FAILED

_TRAMPOLINE = b"""\
#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")/python" "$0" "$@"
' '''
"""
# What installers write: the interpreter alone, or by way of a shell where its path is long.
_SHEBANG = re.compile(rb"\A#!(?:[^\n]*python[^\n]*\n|/bin/sh\n'''exec' [^\n]*\n' '''\n)")


def relocate_tree(tree: Path, program: Path, *, version: str) -> None:
    """Give scripts and metadata their final form.

    Args:
        tree: Packages in `lib`, scripts in `bin`.
        program: The interpreter, as programs in a sandbox find it.
        version: Its version.

    Raises:
        PACKAGE_BUILD_FAILED: a file names the place where it was built.
    """
    programs = tree / "bin"
    for path in sorted(programs.iterdir()):
        if path.name.lower().startswith("activate") or path.is_symlink():
            path.unlink()
        elif (script := path.read_bytes()).startswith(b"#!"):
            path.write_bytes(_SHEBANG.sub(_TRAMPOLINE, script, count=1))
    (programs / "python").symlink_to(program)
    major, minor = version.split(".")[:2]
    for name in (f"python{major}", f"python{major}.{minor}"):
        (programs / name).symlink_to("python")
    (tree / "pyvenv.cfg").write_text(
        f"home = {program.parent}\ninclude-system-site-packages = false\nversion = {version}\n",
        encoding="utf-8",
    )
    for record in sorted(tree.glob("lib/python*/site-packages/*.dist-info/RECORD")):
        _correct_record(record)
    _verify_relocated(tree)


def _correct_record(record: Path) -> None:
    """A package's own list of its files: the digests of rewritten scripts."""
    rows = list(csv.reader(io.StringIO(record.read_text(encoding="utf-8"))))
    for row in rows:
        path = record.parent.parent / row[0]
        if row[0].startswith("../") and path.is_file():
            data = path.read_bytes()
            encoded = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            row[1:] = [f"sha256={encoded}", str(len(data))]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    record.write_text(text.getvalue(), encoding="utf-8")


def _verify_relocated(tree: Path) -> None:
    staged = str(tree.parent).encode()
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink() and staged in path.read_bytes():
            raise PACKAGE_BUILD_FAILED.error(
                f"{path.relative_to(tree)}: expected a file that works anywhere, found the path of its build"
            )
