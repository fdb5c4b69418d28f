"""Trials in miniature: a contract that needs nothing but a shell, and what it takes to run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from repotrial._core.words import Level
from repotrial.authoring import lock_contract
from repotrial.contract import LoadedContract, load_contract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.redaction import SecretRedactor
from repotrial.run import Agent, PlannedRun, RunSettings, build_spec
from repotrial.signing import SigningKey
from support.contracts import write_contract

SAY = """\
schema = "repotrial/contract@1"
id = "say"
title = "The greeting is missing"
kind = "feature"

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
tools = { bash = ">=4" }

[[checks]]
id = "said"
gate = "acceptance"
judge = "out-of-process"
baseline = "fail"
run = "test \\"$(cat said.txt)\\" = hello"
timeout_seconds = 60

[[checks]]
id = "kept"
gate = "acceptance"
judge = "out-of-process"
baseline = "pass"
run = "grep -q first notes/list.txt"
timeout_seconds = 60

[policy]
protected = ["notes/**"]
"""
REFERENCE = """\
diff --git a/said.txt b/said.txt
new file mode 100644
--- /dev/null
+++ b/said.txt
@@ -0,0 +1 @@
+hello
"""


def make_say_contract(
    directory: Path, text: str = SAY, *, files: dict[str, str] | None = None
) -> LoadedContract:
    """A locked contract: a file `said.txt` has to say hello."""
    write_contract(
        directory,
        text.replace('kind = "feature"\n', 'kind = "feature"\nreference = "reference.patch"\n', 1),
        files={
            "statement.md": "After the change, said.txt exists and holds the greeting of the list.\n",
            "reference.patch": REFERENCE,
            "repo/notes/list.txt": "first: hello\nsecond: goodbye\n",
            "repo/README.md": "Greetings.\n",
            **(files or {}),
        },
    )
    lock_contract(directory)
    return load_contract(directory)


class Request(NamedTuple):
    """What `conduct_run` takes."""

    plan: PlannedRun
    settings: RunSettings
    open_installation: Callable[[], Installation]

    def with_settings(self, **settings: Any) -> Request:
        return self._replace(settings=dataclasses.replace(self.settings, **settings))


def build_request(
    loaded: LoadedContract,
    agent: Agent,
    installation: Installation | Level,
    runs: Path,
    *,
    replicate: int = 0,
    settings: InstallationSettings | None = None,
) -> Request:
    """One run, as `conduct_run` takes it, sealed with a key of the test's own.

    Where only a level is named, the run opens its installation itself, by the settings.
    """
    level = installation if isinstance(installation, Level) else installation.level
    spec = build_spec(loaded, agent, level=level, root_seed=20260307, replicate=replicate)

    def open_now() -> Installation:
        if not isinstance(installation, Level):
            return installation
        assert settings is not None
        return open_installation(loaded, settings, level=level)

    key = SigningKey.load(runs.parent / "key.pem")
    return Request(
        PlannedRun(loaded=loaded, agent=agent, spec=spec),
        RunSettings(runs=runs, key=key, redactor=SecretRedactor({})),
        open_now,
    )
