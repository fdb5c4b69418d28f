"""A small contract to cheat on, and an oracle that is naive: it trusts exit codes and a results file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from repotrial._core.errors import MachineError
from repotrial.authoring import lock_contract
from repotrial.authoring._certify._cheats._common import Cheat
from repotrial.contract import load_contract
from repotrial.environment import Installation, InstallationSettings, SandboxRequest, open_installation
from repotrial.isolation import Bind, CommandSpec
from repotrial.trace import Exited
from support.caches import find_shared_cache
from support.contracts import write_contract
from support.harness import require_sandboxes

__all__ = ["build_settings", "is_naively_accepted", "open_counting", "write_counting"]

LOCK: Final = (
    Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars" / "requirements.lock"
)
COMMAND: Final = (
    'python -m pytest -q -p no:cacheprovider --junitxml="$REPOTRIAL_RESULTS/junit.xml" acceptance'
)
CONTRACT: Final = f"""\
schema = "repotrial/contract@1"
id = "counting"
title = "Sums leave the last number out"
kind = "bug-fix"
ecosystem = "python"
reference = "reference.patch"

[clarify]
modules = ["src/counting/core.py"]
entry_points = ["counting.total", "counting.join"]

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
tools = {{ python = ">=3.11", git = ">=2" }}
python = {{ lock = "requirements.lock", version = ">=3.11" }}

[environment.variables]
PYTHONPATH = "src"

[[checks]]
id = "unit"
gate = "acceptance"
files = [{{ from = "checks/unit", to = "acceptance" }}]
run = '''{COMMAND}'''
results = [{{ format = "junit", path = "junit.xml" }}]
inventory = "checks/unit.json"
judge = "in-process"
baseline = "fail"
timeout_seconds = 300

[policy]
writable = ["src/**", "tests/**"]
"""
CORE: Final = """\
def total(numbers):
    return sum(numbers[:-1])


def join(words):
    return "-".join(words[:-1])
"""
RIGHT: Final = CORE.replace("[:-1]", "")
TOTALS: Final = (3, 5, 8, 13, 21, 34)
JOINED: Final = ("ab", "cd", "ef", "gh", "ij", "kl", "mn")
TESTS: Final = "from counting import join, total\n" + "".join(
    [
        *(
            f"\n\ndef test_the_total_of_{number}():\n    assert total([1, {number}]) == {number + 1}\n"
            for number in TOTALS
        ),
        *(
            f'\n\ndef test_words_with_{word}():\n    found = join(["x", "{word}"])\n'
            f'    assert found == "x-{word}"\n'
            for word in JOINED
        ),
    ]
)
KNOWN: Final = "from counting import total\n\n\ndef test_a_known_sum():\n    assert total([1, 2]) == 3\n"


def write_counting(directory: Path) -> Path:
    """The contract, locked; every test fails on its snapshot."""
    ids = [f"acceptance.test_counting::test_the_total_of_{number}" for number in TOTALS]
    ids += [f"acceptance.test_counting::test_words_with_{word}" for word in JOINED]
    files: dict[str, str | bytes] = {
        "repo/src/counting/__init__.py": "from counting.core import join, total\n",
        "repo/src/counting/core.py": CORE,
        "repo/tests/test_known.py": KNOWN,
        "checks/unit/test_counting.py": TESTS,
        "checks/unit.json": json.dumps({"fail_to_pass": ids, "pass_to_pass": []}),
        "requirements.lock": LOCK.read_bytes(),
    }
    write_contract(directory, CONTRACT, files={**files, "reference.patch": _build_reference(directory)})
    lock_contract(directory)
    return directory


def _build_reference(directory: Path) -> bytes:
    place = directory / "making"
    for side, text in (("a", CORE), ("b", RIGHT)):
        path = place / side / "src" / "counting" / "core.py"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "a", "b"], cwd=place, capture_output=True, check=False
    )
    shutil.rmtree(place)
    return done.stdout


def build_settings() -> InstallationSettings:
    return InstallationSettings(cache=find_shared_cache(), home=Path.home(), variables=dict(os.environ))


def open_counting(place: Path) -> Installation:
    """The contract's environment; skips where this machine cannot have it."""
    require_sandboxes()
    try:
        return open_installation(load_contract(place / "contract"), build_settings())
    except MachineError as error:
        if error.code != "package-index-unreachable":
            raise
        pytest.skip(f"no package index: {error.message}")


def is_naively_accepted(installation: Installation, cheat: Cheat | None, oracle: Path) -> bool:
    """What an oracle says that judges where the agent worked, and believes what it finds there.

    The project's own tests are what it runs where the trick is about them.
    """
    is_about_tests = cheat is not None and cheat.variant == "open" and cheat.name.endswith("-tests")
    folder = "tests" if is_about_tests else "acceptance"
    with installation.open_workspace() as workspace, installation.open_scratch() as scratch:
        scratch.write("change.patch", cheat.patch if cheat else b"")
        scratch.write("script", (cheat.script or b"") if cheat else b"")
        scratch.write("test_counting.py", oracle.read_bytes())
        script = f"""
            export HOME=/tmp/home REPOTRIAL_RESULTS=/tmp/home/results
            mkdir -p /tmp/home/results
            if test -s /opt/naive/change.patch; then git apply /opt/naive/change.patch || exit 99; fi
            /bin/sh /opt/naive/script || exit 98
            mkdir -p acceptance && cp /opt/naive/test_counting.py acceptance/
            export PATH="$HOME/.local/bin:$PATH"
            {COMMAND.replace("acceptance", folder)}
            code=$?
            cat "$REPOTRIAL_RESULTS"/junit.xml 2> /dev/null
            exit $code
        """
        with installation.open_sandbox(
            workspace, SandboxRequest(phase="accept", binds=(Bind(source=scratch.path, target="/opt/naive"),))
        ) as sandbox:
            done = sandbox.run(CommandSpec(argv=("/bin/bash", "-c", script), timeout_seconds=600))
    said = done.stdout.prefix.decode()
    assert done.exit not in (Exited(code=98), Exited(code=99)), (said, done.stderr.prefix)
    return done.exit == Exited(code=0) and not re.search(r"<(failure|error)\b", said)
