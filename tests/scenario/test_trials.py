"""Whole runs in real sandboxes: what is recorded, what it is worth, and that it can be done again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repotrial.contract import LoadedContract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import (
    Agent,
    CommandAgent,
    HumanAgent,
    NoopAgent,
    PatchAgent,
    ReferenceAgent,
    Replay,
    RunEnded,
    ScriptAgent,
    conduct_run,
    replay_run,
)
from repotrial.score import Invalid, Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.signing import SigningKey
from repotrial.trace import Briefing, MonitorAlert, RunPaths, Termination, check_run, iter_events
from repotrial.trace._payloads import Payload
from support.greetings import REFERENCE, SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

HONEST = b"echo hello > said.txt\n"
MESSY = b"""\
set -e
mkdir -p new/deep; printf 'bin\\0ary' > new/deep/b.bin; echo text > new/t.txt; chmod +x new/t.txt
ln -s t.txt new/link; rm README.md; printf 'a\\r\\nb' > crlf.txt; : > empty; mkdir new/void
echo hello > said.txt
"""


class Place:
    """A contract that is installed, and a directory for its runs."""

    def __init__(self, root: Path, loaded: LoadedContract, installation: Installation) -> None:
        self.root = root
        self.loaded = loaded
        self.installation = installation
        self.runs = root / "runs"

    def conduct(self, agent: Agent) -> RunEnded:
        return conduct_run(*build_request(self.loaded, agent, self.installation, self.runs))

    def replay(self, run: RunPaths) -> Replay:
        settings = build_request(self.loaded, NoopAgent(), self.installation, self.root / "replays").settings
        return replay_run(run, self.loaded, installation=self.installation, settings=settings)


def judge(run: RunEnded) -> ScoreCard:
    return build_score_card(load_evidence(run.paths.root))


def list_outcomes(card: ScoreCard) -> str:
    return "".join(gate.outcome[0].upper() for gate in card.gates)


def find_payloads(run: RunEnded, kind: type[Payload]) -> list[Payload]:
    return [event.payload for event in iter_events(run.paths.trace) if isinstance(event.payload, kind)]


def verify(run: RunEnded) -> bool:
    key = SigningKey.load(run.paths.root.parent.parent / "key.pem")
    return check_run(run.paths, trusted_keys=[key.public_key]).holds


@pytest.fixture
def open_place() -> Iterator[Callable[..., Place]]:
    require_sandboxes()
    with scratch() as root:
        opened: list[Installation] = []

        def open_one(text: str = SAY) -> Place:
            loaded = make_say_contract(root / "contract", text)
            settings = InstallationSettings(cache=root / "cache", home=root, variables={})
            opened.append(open_installation(loaded, settings))
            return Place(root, loaded, opened[-1])

        yield open_one
        for installation in opened:
            installation.close()


@pytest.fixture
def place(open_place: Callable[..., Place]) -> Place:
    return open_place()


@pytest.mark.parametrize(
    ("agent", "verdict"),
    [
        (NoopAgent(), "failure"),
        (ReferenceAgent(), "success"),
        (PatchAgent(patch=REFERENCE.encode()), "success"),
        (PatchAgent(patch=REFERENCE.replace("hello", "bye").encode()), "failure"),
        (ScriptAgent(script=HONEST), "success"),
        (ScriptAgent(script=b"echo bye > said.txt\n"), "failure"),
        (ScriptAgent(script=b"echo hello > said.txt; exit 3\n"), "success"),
        (CommandAgent(argv=("/bin/sh", "-c", "echo hello > said.txt")), "success"),
    ],
    ids=[
        "noop",
        "reference",
        "patch",
        "wrong-patch",
        "script",
        "wrong-script",
        "exit-code-is-not-believed",
        "command",
    ],
)
def test_an_agent_gets_the_verdict_that_its_change_deserves(place: Place, agent: Agent, verdict: str) -> None:
    run = place.conduct(agent)
    card = judge(run)
    assert run.fault is None
    assert verify(run)
    assert isinstance(card.status, Scorable)
    assert card.status.verdict == verdict


def test_a_patch_that_does_not_apply_is_a_failure_of_the_change(place: Place) -> None:
    patch = REFERENCE.replace("new file mode 100644\n--- /dev/null", "--- a/said.txt").replace(
        "@@ -0,0 +1 @@", "@@ -1 +1,2 @@\n old"
    )
    run = place.conduct(PatchAgent(patch=patch.encode()))
    card = judge(run)
    assert verify(run)
    assert list_outcomes(card)[0] == "F"
    assert isinstance(card.status, Scorable)
    assert card.status.verdict == "failure"
    assert "patch-does-not-apply" in [tag.id for tag in card.tags]


def test_garbage_instead_of_a_patch_is_a_failure_of_the_change(place: Place) -> None:
    card = judge(place.conduct(PatchAgent(patch=b"\x00\xff this is no patch\n")))
    assert isinstance(card.status, Scorable)
    assert card.status.verdict == "failure"


def test_touching_a_protected_file_fails_the_safety_gate_even_if_all_checks_pass(place: Place) -> None:
    run = place.conduct(ScriptAgent(script=HONEST + b"echo third >> notes/list.txt\n"))
    card = judge(run)
    assert list_outcomes(card) == "PPPF"
    assert "policy-violation" in [tag.id for tag in card.tags]


def test_a_protected_file_does_not_cross_into_acceptance(place: Place) -> None:
    run = place.conduct(ScriptAgent(script=HONEST + b"echo gone > notes/list.txt\n"))
    assert list_outcomes(judge(run))[2] == "P"  # `kept` saw the untouched list


def test_a_run_that_reaches_its_ceiling_is_ended_and_says_so(open_place: Callable[..., Place]) -> None:
    place = open_place(SAY + "\n[limits]\nwall_seconds = 1\n")
    run = place.conduct(ScriptAgent(script=b"sleep 600\n"))
    (termination,) = find_payloads(run, Termination)
    assert isinstance(termination, Termination)
    assert (termination.category, termination.nature) == ("run-timeout", "resource")
    assert verify(run)
    assert "non-termination" in [tag.id for tag in judge(run).tags]


def test_the_agents_processor_time_does_not_bound_acceptance(open_place: Callable[..., Place]) -> None:
    burn = "while [ $(($(ps -o cputimes= -p $$))) -lt 2 ]; do for i in $(seq 50000); do :; done; done"
    text = SAY.replace('run = "test', f'run = "{burn}; test', 1)
    place = open_place(text + "\n[limits]\ncpu_seconds = 1\n")
    status = judge(place.conduct(ReferenceAgent())).status
    assert isinstance(status, Scorable)
    assert status.verdict == "success"
    acted = place.conduct(ScriptAgent(script=b"while :; do :; done\n"))
    (termination,) = find_payloads(acted, Termination)
    assert isinstance(termination, Termination)
    assert termination.category == "circuit-breaker"


def test_a_daemon_of_the_agent_does_not_outlive_acting(place: Place) -> None:
    script = HONEST + b"setsid sh -c 'sleep 3; echo bye > said.txt' >/dev/null 2>&1 &\n"
    assert isinstance(judge(place.conduct(ScriptAgent(script=script))).status, Scorable)
    assert list_outcomes(judge(place.conduct(ScriptAgent(script=script)))) == "PPPP"


def test_what_a_change_cannot_hold_is_evidence(place: Place) -> None:
    run = place.conduct(ScriptAgent(script=b"mkfifo pipe; mkdir -p a/.git; echo hello > said.txt\n"))
    events = iter_events(run.paths.trace)
    alerts = [event.payload for event in events if isinstance(event.payload, MonitorAlert)]
    signals = {
        signal.name: signal.value for alert in alerts if alert.rule == "left-out" for signal in alert.signals
    }
    assert signals == {"nested-repository": 1, "special-file": 1}
    assert isinstance(judge(run).status, Scorable)


def test_directories_nested_beyond_any_path_do_not_make_a_run_invalid(place: Place) -> None:
    """Whoever fails would gain by a harness that gives up."""
    nest = b"i=0; while [ $i -lt 1100 ]; do mkdir dddd; cd dddd; i=$((i+1)); done; echo x > f"
    run = place.conduct(ScriptAgent(script=b"echo bye > said.txt; " + nest))
    status = judge(run).status
    assert run.fault is None
    assert isinstance(status, Scorable)
    assert status.verdict == "failure"
    assert not [*place.root.rglob("part-*/upper/dddd")]


def test_a_check_that_hangs_because_of_the_change_is_blamed_on_the_change(
    open_place: Callable[..., Place],
) -> None:
    text = SAY.replace(
        '"test \\"$(cat said.txt)\\" = hello"', "\"sh -c '. ./said.txt' 2>/dev/null; grep -q hello said.txt\""
    )
    place = open_place(text.replace("timeout_seconds = 60", "timeout_seconds = 3", 1))
    run = place.conduct(ScriptAgent(script=b"echo 'sleep 600 # hello' > said.txt\n"))
    card = judge(run)
    assert isinstance(card.status, Scorable)
    assert (card.status.verdict, card.status.fault) == ("acceptance-error", "change")


def test_a_contract_that_cannot_be_bound_leaves_an_honest_invalid_run(place: Place) -> None:
    request = build_request(place.loaded, NoopAgent(), place.installation, place.runs)

    def refuse() -> Installation:
        shutil.rmtree(place.root / "contract" / "repo")
        settings = InstallationSettings(cache=place.root / "other-cache", home=place.root, variables={})
        return open_installation(place.loaded, settings)

    run = conduct_run(request.plan, request.settings, refuse)
    card = judge(run)
    assert run.fault is not None
    assert isinstance(card.status, Invalid)


def test_an_agent_that_is_not_there_has_not_failed(place: Place) -> None:
    """Somebody mistyped its name: nothing was measured."""
    run = place.conduct(CommandAgent(argv=("no-such-agent", "--fix")))
    status = judge(run).status
    assert isinstance(status, Invalid)
    assert "agent-not-started" in (run.fault or "")


def test_how_the_agents_program_ended_is_told(place: Place) -> None:
    run = place.conduct(ScriptAgent(script=b"exit 7\n"))
    (termination,) = find_payloads(run, Termination)
    assert isinstance(termination, Termination)
    assert termination.rationale == "the agent's program ended with exit code 7"
    assert isinstance(judge(run).status, Scorable)


def test_the_briefing_is_kept_verbatim_and_given_to_the_agent(place: Place) -> None:
    run = place.conduct(ScriptAgent(script=b'cp "$REPOTRIAL_BRIEFING" said.txt\n'))
    (briefing,) = find_payloads(run, Briefing)
    assert isinstance(briefing, Briefing)
    assert b"+- There is no network." in run.paths.change.read_bytes()


def test_a_persons_change_is_judged_and_their_time_is_metered(place: Place) -> None:
    def work(workspace: Path, briefing: str, seconds: int) -> bool:
        assert "greeting" in briefing
        assert seconds > 0
        (workspace / "said.txt").write_text("hello\n")
        return True

    request = build_request(place.loaded, HumanAgent(), place.installation, place.runs)
    run = conduct_run(*request.with_settings(handover=work))
    assert list_outcomes(judge(run)) == "PPPP"
    (termination,) = find_payloads(run, Termination)
    assert isinstance(termination, Termination)
    assert [signal.name for signal in termination.signals] == ["human_us"]


def test_a_verdict_can_be_computed_again_from_a_copy_elsewhere(place: Place, tmp_path: Path) -> None:
    run = place.conduct(ScriptAgent(script=MESSY))
    shutil.copytree(run.paths.root, tmp_path / "copy")
    shutil.rmtree(place.root / "contract")
    assert build_score_card(load_evidence(tmp_path / "copy")) == judge(run)


@pytest.mark.parametrize(
    "agent", [ScriptAgent(script=MESSY), ReferenceAgent(), NoopAgent()], ids=lambda a: a.name
)
def test_a_replay_rebuilds_the_tree_from_the_trace_and_comes_to_the_same_outcomes(
    place: Place, agent: Agent
) -> None:
    run = place.conduct(agent)
    replay = place.replay(run.paths)
    assert replay.holds, replay.divergences


def test_a_replay_sees_that_a_machine_judges_otherwise(place: Place, tmp_path: Path) -> None:
    run = place.conduct(ScriptAgent(script=HONEST))
    shutil.copytree(run.paths.root, tmp_path / "run")
    (tmp_path / "run" / "change.patch").write_bytes(REFERENCE.replace("hello", "bye").encode())
    replay = place.replay(RunPaths(tmp_path / "run"))
    assert not replay.tree_rebuilt
    assert any(divergence.what.startswith("said") for divergence in replay.divergences)
