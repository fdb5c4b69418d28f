"""Drafts of `contract.toml`: what is offered in comments is TOML once its mark is taken away."""

from __future__ import annotations

import re
import tomllib

import pytest

from repotrial.authoring._ecosystem import ECOSYSTEMS
from repotrial.authoring._template import ContractDraft, render_contract
from repotrial.contract import ArchiveRepository, Check, ResultFile

_OFFERED = re.compile(r"^# (?=\[|[a-z_]+ = )", re.MULTILINE)


def build_draft(ecosystem: str | None) -> ContractDraft:
    return ContractDraft(
        id="answer",
        title="The answer is wrong",
        kind="bug-fix",
        ecosystem=next((each for each in ECOSYSTEMS if each.name == ecosystem), None),
        reference=None,
        repository=ArchiveRepository(source="snapshot.tar.gz"),
        check=Check(
            id="tests",
            gate="acceptance",
            run="make check",
            results=(ResultFile(format="junit", path="junit.xml"),),
        ),
        protected=(),
        generated=(),
        base_commit="1" * 40,
        origin="A draft.",
        guesses=(),
    )


@pytest.mark.parametrize("ecosystem", [None, *(each.name for each in ECOSYSTEMS)])
def test_what_is_offered_is_toml_without_the_mark_of_the_comment(ecosystem: str | None) -> None:
    text = render_contract(build_draft(ecosystem))
    found = tomllib.loads(_OFFERED.sub("", text))
    assert found["checks"][0]["inventory"] == "checks/tests.json"
    assert found["checks"][0]["files"] == [{"from": "checks/tests", "to": "."}]
    assert set(found["clarify"]) == {"modules", "behavior"}
    packages = {"python": {"lock": "requirements.lock"}}
    packages["node"] = {"lock": "package-lock.json", "manifest": "package.json"}
    wanted = {"python": "python", "javascript": "node"}.get(ecosystem or "")
    assert {name: found["environment"].get(name) for name in packages} == {
        name: value if name == wanted else None for name, value in packages.items()
    }
