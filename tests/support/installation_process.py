"""An installation in a process of its own, as another user: one contract, one command line, one answer.

Run as a script: everything is imported as whoever started it, then it becomes the user it was told to be.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from repotrial.contract import load_contract
from repotrial.environment import InstallationSettings, SandboxRequest, open_installation
from repotrial.isolation import CommandSpec
from support.harness_process import attempt, become


def main() -> None:
    uid, directory, cache, script = sys.argv[1:]
    loaded = load_contract(Path(directory))
    if uid != "-":
        become(int(uid))
    settings = InstallationSettings(cache=Path(cache), home=Path("/nonexistent"), variables={})

    def work() -> str:
        with (
            open_installation(loaded, settings) as installation,
            installation.open_workspace() as workspace,
            installation.open_sandbox(workspace, SandboxRequest(phase="act")) as sandbox,
        ):
            result = sandbox.run(CommandSpec(argv=("bash", "-c", script), timeout_seconds=300))
        return result.stdout.prefix.decode() + result.stderr.prefix.decode()

    sys.stdout.write(json.dumps(attempt(work)) + "\n")


if __name__ == "__main__":
    main()
