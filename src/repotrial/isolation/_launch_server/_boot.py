"""Starting a module of this package as a small process of its own.

Forking a process that has threads is not safe, and a whole interpreter with everything installed is slow.
So modules that need only the standard library are run by an interpreter that sees nothing else: the
packages around them are stand-ins that know where their modules are, and run no code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_PACKAGE: Final = "repotrial.isolation._launch_server"
_BOOT: Final = """\
import importlib, sys, types
root, module = sys.argv[1:3]
for name in ("repotrial", "repotrial.isolation", "repotrial.isolation._launch_server"):
    package = types.ModuleType(name)
    package.__path__ = [root + "/" + name.replace(".", "/")]
    sys.modules[name] = package
importlib.import_module(module).main(sys.argv[3:])
"""


def build_boot_argv(module: str, *arguments: str) -> list[str]:
    """The command line that runs the `main` of a module of this package.

    Args:
        module: Its name within the package; it and all that it imports need only the standard library.
        arguments: What `main` gets.
    """
    root = Path(__file__).resolve().parents[3]
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(root), f"{_PACKAGE}.{module}", *arguments]
