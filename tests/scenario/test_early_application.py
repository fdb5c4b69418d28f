"""Git may apply a change in the first check's own sandbox: nobody can tell, but by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from repotrial.contract import LoadedContract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import PatchAgent, RunEnded, ScriptAgent, conduct_run
from repotrial.run._accept._prepared import leaves_git_alone
from repotrial.trace import AcceptanceExecution, Passed, PatchApplication, iter_events
from support.greetings import REFERENCE, SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

MESSY = b"""\
set -e
mkdir -p new/deep; printf 'bin\\0ary' > new/deep/b.bin; echo text > new/t.txt; chmod +x new/t.txt
ln -s t.txt new/link; rm README.md; printf 'a\\r\\nb' > crlf.txt; : > empty
echo hello > said.txt
"""
STEERED = SAY.replace("[[checks]]", '[environment.variables]\nGIT_DIR = "/nowhere"\n\n[[checks]]', 1)
TRY_RESULTS = SAY.replace(
    'run = "test \\"$(cat said.txt)\\" = hello"', 'run = "test -z \\"$(find /opt/repotrial -type f)\\""'
)


@pytest.fixture
def conduct() -> Iterator[Callable[[str, bytes], RunEnded]]:
    require_sandboxes()
    with scratch() as root:
        opened: list[Installation] = []

        def conduct_one(text: str, script: bytes) -> RunEnded:
            loaded = make_say_contract(root / f"contract-{len(opened)}", text)
            settings = InstallationSettings(cache=root / "cache", home=root, variables={})
            opened.append(open_installation(loaded, settings))
            agent = PatchAgent(patch=script) if script.startswith(b"diff ") else ScriptAgent(script=script)
            return conduct_run(*build_request(loaded, agent, opened[-1], root / "runs"))

        yield conduct_one
        for installation in opened:
            installation.close()


def list_payloads(run: RunEnded) -> list[object]:
    return [event.payload for event in iter_events(run.paths.trace)]


def find_application(run: RunEnded) -> PatchApplication:
    (found,) = [payload for payload in list_payloads(run) if isinstance(payload, PatchApplication)]
    return found


def test_the_tree_is_the_same_as_if_git_had_worked_alone(
    conduct: Callable[[str, bytes], RunEnded],
) -> None:
    early, alone = find_application(conduct(SAY, MESSY)), find_application(conduct(STEERED, MESSY))
    assert early.tree_digest is not None
    assert early.tree_digest == alone.tree_digest
    assert (early.command, early.exit, early.outcome) == (alone.command, alone.exit, alone.outcome)


def test_the_application_is_recorded_before_any_check(conduct: Callable[[str, bytes], RunEnded]) -> None:
    kinds = [type(payload) for payload in list_payloads(conduct(SAY, MESSY))]
    assert kinds.index(PatchApplication) < kinds.index(AcceptanceExecution)


def test_a_check_finds_nothing_of_the_application(conduct: Callable[[str, bytes], RunEnded]) -> None:
    payloads = list_payloads(conduct(TRY_RESULTS, MESSY))
    first = next(payload for payload in payloads if isinstance(payload, AcceptanceExecution))
    assert isinstance(first.outcome, Passed)


def test_git_is_asked_again_in_a_sandbox_of_its_own_where_it_objects(
    conduct: Callable[[str, bytes], RunEnded],
) -> None:
    patch = REFERENCE.replace("said.txt", "README.md").encode()
    application = find_application(conduct(SAY, patch))
    assert application.tree_digest is None
    assert application.rejected_paths == ("README.md",)


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedContract:
    return make_say_contract(tmp_path / "contract")


def test_whatever_could_steer_git_or_change_its_tree_keeps_it_apart(loaded: LoadedContract) -> None:
    environment, check = loaded.contract.environment, loaded.contract.checks[0]
    replace = msgspec.structs.replace
    assert leaves_git_alone(environment, check)
    assert not leaves_git_alone(replace(environment, variables={"GIT_WORK_TREE": "/"}), check)
    assert not leaves_git_alone(environment, replace(check, variables={"LD_PRELOAD": "/x.so"}))
    assert not leaves_git_alone(environment, replace(check, needs=("kept",)))
    for field, value in (("image", None), ("services", ("a",)), ("mounts", ("a",))):
        assert not leaves_git_alone(replace(environment, **{field: value}), check)
    assert not leaves_git_alone(environment, replace(check, files=("a",)))
