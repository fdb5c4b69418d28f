"""Run by the installer's own interpreter: prints the lines of a lock that apply to another interpreter.

pip evaluates markers for the interpreter that runs it, also where it installs for another one. Works with
every Python from 3.8 on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement


def main(lock: str, environment: str) -> None:
    """Print each line that applies, without its marker.

    Args:
        lock: One requirement with its hashes on a line.
        environment: What markers are evaluated with, as a JSON object.
    """
    values = json.loads(environment)
    for line in Path(lock).read_text(encoding="utf-8").splitlines():
        text, mark, hashes = line.partition(" --hash=")
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({**values, "extra": ""}):
            print(f"{text.partition(';')[0].strip()}{mark}{hashes}")  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
