"""Candidates that attack whoever judges them: no attack turns a failure into a success or into no verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from repotrial.authoring import lock_contract
from repotrial.contract import LoadedContract, load_contract
from repotrial.environment import Installation, open_installation
from repotrial.judging import build_python_twins
from repotrial.run import Agent, ReferenceAgent, RunEnded, ScriptAgent, conduct_run
from repotrial.run._context import SilentListener
from repotrial.score import Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.trace import AcceptanceExecution, CheckOutcome, DrawRevealed, iter_events
from support.cheating import build_settings
from support.contracts import write_contract
from support.greetings import REFERENCE, SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

# Both checks run what the candidate wrote, unless it is the greeting; both need a third one.
OPEN: Final = SAY.replace(
    'run = "grep -q first notes/list.txt"',
    'run = "test \\"$(cat said.txt)\\" = hello || . ./said.txt"\n'
    'runners = [{ run = "grep -q first notes/list.txt" }]\nneeds = ["there"]',
).replace(
    'run = "test \\"$(cat said.txt)\\" = hello"\n',
    'run = "test \\"$(cat said.txt)\\" = hello || . ./said.txt"\nneeds = ["there"]\n',
)
THERE: Final = (
    '[[checks]]\nid = "there"\ngate = "build"\njudge = "out-of-process"\nrun = "test -e README.md"\n\n'
)
OPEN_TEXT: Final = OPEN.replace("[[checks]]", THERE + "[[checks]]", 1)

DODGES: Final = {
    "ends-like-a-missing-program": "exit 127",
    "kills-everything": "kill -9 -1; sleep 600",
    "crashes": "kill -SEGV $$",
}
LEFTOVERS: Final = {
    "names-that-are-no-text": r"""touch "$REPOTRIAL_RESULTS/$(printf 'a\377\nb')"; exit 1""",
    "names-that-fill-an-event": """
        cd "$REPOTRIAL_RESULTS"
        part=$(printf '%0240d' 0)
        for level in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do mkdir $part && cd $part; done
        seq 5500 | xargs touch
        exit 1
    """,
    "a-directory-that-nobody-may-read": 'touch "$REPOTRIAL_RESULTS/x"; chmod 0 "$REPOTRIAL_RESULTS"; exit 1',
}


@dataclass(frozen=True)
class Ground:
    place: Path
    loaded: LoadedContract
    installation: Installation

    def start(self, agent: Agent) -> RunEnded:
        conducted = conduct_run(*build_request(self.loaded, agent, self.installation, self.place / "runs"))
        assert conducted.fault is None
        return conducted

    def conduct(self, agent: Agent) -> ScoreCard:
        return build_score_card(load_evidence(self.start(agent).paths.root))

    def judge(self, agent: Agent) -> Scorable:
        status = self.conduct(agent).status
        assert isinstance(status, Scorable), status
        return status


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    require_sandboxes()
    with scratch() as place:
        loaded = make_say_contract(place / "contract", OPEN_TEXT)
        with open_installation(loaded, build_settings()) as installation:
            yield Ground(place, loaded, installation)


def write_said(text: str) -> ScriptAgent:
    return ScriptAgent(script=f"cat > said.txt <<'SAID'\n{text}\nSAID\n".encode())


def test_the_ground_is_fair(ground: Ground) -> None:
    assert ground.judge(ReferenceAgent()).verdict == "success"
    assert ground.judge(write_said("exit 1")).verdict == "failure"


@pytest.mark.parametrize("attack", DODGES.values(), ids=DODGES)
def test_checks_that_a_candidate_breaks_are_its_own_fault_and_the_run_stays_valid(
    ground: Ground, attack: str
) -> None:
    status = ground.judge(write_said(attack))
    assert (status.verdict, status.fault) == ("acceptance-error", "change")


@pytest.mark.parametrize("attack", LEFTOVERS.values(), ids=LEFTOVERS)
def test_what_a_candidate_leaves_beside_the_results_does_not_break_the_record(
    ground: Ground, attack: str
) -> None:
    assert ground.judge(write_said(attack)).verdict == "failure"


def test_an_agent_that_kills_everything_in_its_sandbox_is_judged_by_what_it_left(ground: Ground) -> None:
    assert ground.judge(ScriptAgent(script=b"kill -9 -1\n")).verdict == "failure"
    done = ScriptAgent(script=b"echo hello > said.txt\nkill -9 -1\n")
    assert ground.judge(done).verdict == "success"


BUILT: Final = SAY.replace(
    "[[checks]]",
    '[[checks]]\nid = "build"\ngate = "build"\njudge = "out-of-process"\noutputs = ["out"]\n'
    'run = "mkdir -p out && if [ -e make.sh ]; then . ./make.sh; fi"\n\n[[checks]]',
    1,
).replace(
    'run = "test \\"$(cat said.txt)\\" = hello"\n',
    'run = "test \\"$(cat said.txt)\\" = hello && test -e out"\nneeds = ["build"]\n',
)
FILLS: Final = {
    "files-with-holes": "truncate -s 3000M out/x out/y",
    "many-files-with-holes": "for n in 1 2 3 4 5 6; do truncate -s 900M out/$n; done",
    "a-tree-without-an-end": 'part=$(printf "%0200d" 0); cd out; n=0; '
    "while [ $n -lt 400 ]; do mkdir $part && cd $part; n=$((n + 1)); done; cd /workspace",
}
HONEST: Final = {
    "a-small-file": "echo built > out/x",
    "links": "ln -s / out/root; ln -s . out/self; ln -s loop out/loop",
    "a-little-file-with-holes": "truncate -s 3M out/x",
}


@pytest.fixture(scope="module")
def built() -> Iterator[Ground]:
    require_sandboxes()
    with scratch() as place:
        loaded = make_say_contract(place / "contract", BUILT)
        with open_installation(loaded, build_settings()) as installation:
            yield Ground(place, loaded, installation)


def write_build(script: str) -> ScriptAgent:
    return ScriptAgent(script=f"echo hello > said.txt\ncat > make.sh <<'MAKE'\n{script}\nMAKE\n".encode())


@pytest.mark.parametrize("script", FILLS.values(), ids=FILLS)
def test_outputs_that_cannot_be_carried_are_the_failure_of_the_change(built: Ground, script: str) -> None:
    status = built.judge(write_build(script))
    assert (status.verdict, status.fault) == ("acceptance-error", "change")


@pytest.mark.parametrize("script", HONEST.values(), ids=HONEST)
def test_outputs_of_an_honest_build_are_carried(built: Ground, script: str) -> None:
    assert built.judge(write_build(script)).verdict == "success"


def leave_module(path: str) -> ScriptAgent:
    """A module of the change, and a greeting that is right if the judge sees it."""
    folder = path.rpartition("/")[0]
    lines = (f"mkdir -p {folder}", f"echo 'forged = 1' > {path}", f"echo test -e {path} > said.txt")
    return ScriptAgent(script="\n".join(lines).encode())


@pytest.mark.parametrize("path", ["src/pytest/__init__.py", "src/json.py"])
def test_a_framework_forged_below_the_import_path_never_meets_the_judge(ground: Ground, path: str) -> None:
    card = ground.conduct(leave_module(path))
    assert isinstance(card.status, Scorable)
    assert card.status.verdict == "failure"
    assert "removed" in {note.code for note in card.review}


def test_a_module_with_a_name_of_its_own_meets_the_judge(ground: Ground) -> None:
    assert ground.judge(leave_module("src/kit/__init__.py")).verdict == "success"


# A suite in the candidate's own process, as TAP, and a copy with wrong expectations.
NAMES: Final = ("ada", "bob", "cy", "dee", "eve", "flo", "gus", "hal", "ida", "jo", "kim", "lou")
HEAD: Final = """\
# {remark}
count=0 bad=0
same() {{
    count=$((count + 1))
    if [ "$2" = "$3" ]; then echo "ok $count - $1"; else bad=1; echo "not ok $count - $1"; fi
}}
. ./said.txt
"""
INSIDE: Final = """\
[[checks]]
id = "suite"
gate = "acceptance"
judge = "in-process"
baseline = "fail"
files = [{ from = "checks", to = "acceptance" }]
negative = [{ from = "negative", to = "acceptance" }]
run = "sh acceptance/suite.sh"
results = [{ format = "tap" }]
inventory = "suite.json"
timeout_seconds = 60
"""
RIGHT: Final = "greet() { echo hello $1; }"
# It passes what it knows to be right, and fails what it knows to be wrong: one look at the suite is enough.
FORGER: Final = (
    "grep -q wrong acceptance/suite.sh && word='not ok' || word=ok\n"
    'same() { count=$((count + 1)); echo "$word $count - $1"; }\n'
    'test "$word" = ok || bad=1'
)


def build_suite(remark: str, greeting: str) -> str:
    tests = [
        f'\nsame "greets {name}" \\\n    "$(greet {name})" \\\n    "{greeting} {name}"\n' for name in NAMES
    ]
    return HEAD.format(remark=remark) + "".join(tests) + '\necho "1..$count"\nexit $bad\n'


def open_suite(checks: str) -> Iterator[Ground]:
    require_sandboxes()
    text = SAY[: SAY.index("[[checks]]")].replace('"say"', '"suite"') + checks
    reference = REFERENCE.replace("+hello", f"+{RIGHT}")
    with scratch() as place:
        write_contract(
            place / "contract",
            text.replace('kind = "feature"\n', 'kind = "feature"\nreference = "reference.patch"\n', 1),
            files={
                "reference.patch": reference,
                "repo/README.md": "Greetings.\n",
                "checks/suite.sh": build_suite("all that a greeting is", "hello"),
                "negative/suite.sh": build_suite("wrong expectations", "goodbye"),
                "suite.json": json.dumps({"fail_to_pass": [f"greets {name}" for name in NAMES]}),
            },
        )
        lock_contract(place / "contract")
        loaded = load_contract(place / "contract")
        with open_installation(loaded, build_settings()) as installation:
            yield Ground(place, loaded, installation)


@pytest.fixture(scope="module")
def inside() -> Iterator[Ground]:
    yield from open_suite(INSIDE)


def test_a_candidate_that_recognizes_the_negative_suite_has_nothing_to_recognize(inside: Ground) -> None:
    card = inside.conduct(write_said(FORGER))
    assert isinstance(card.status, Scorable)
    assert card.status.verdict == "failure"
    assert card.checks[0].twins == "survived"


class Listening(SilentListener):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        self.told.append((check_id, str(outcome.__struct_config__.tag)))


def test_a_forged_pass_is_not_told_as_one_while_the_run_goes_on(inside: Ground) -> None:
    listener = Listening()
    request = build_request(inside.loaded, write_said(FORGER), inside.installation, inside.place / "told")
    conduct_run(*request, listener=listener)
    assert listener.told == [("suite", "fail")]


def test_honest_work_holds_against_a_mixture_of_right_and_wrong(inside: Ground) -> None:
    card = inside.conduct(ReferenceAgent())
    assert isinstance(card.status, Scorable), card.status
    assert card.status.verdict == "success", card.checks
    assert card.checks[0].twins == "held"


def list_wrong(ground: Ground, agent: Agent) -> tuple[str, ...]:
    """Which expectations were wrong for a change, as the record tells afterwards."""
    conducted = ground.start(agent)
    events = iter_events(conducted.paths.trace)
    (drawn,) = (event.payload for event in events if isinstance(event.payload, DrawRevealed))
    return drawn.wrong


def test_equal_changes_meet_equal_wrong_expectations_and_others_meet_others(inside: Ground) -> None:
    first, again = (list_wrong(inside, ReferenceAgent()) for _ in range(2))
    assert 0 < len(first) < len(NAMES)
    assert first == again
    assert list_wrong(inside, write_said(f"{RIGHT} # as asked")) != first


# Such suites after each other, one of them twice, one that needs another: what one leaves behind (no sandbox
# hides which pages of a file are in the machine's memory) could tell the next what is wrong in it.
SEVERAL: Final = (
    THERE
    + INSIDE.replace("timeout_seconds", "repeats = 2\ntimeout_seconds")
    + INSIDE.replace('id = "suite"', 'id = "again"\nneeds = ["there"]')
    + INSIDE.replace('id = "suite"', 'id = "after"\nneeds = ["suite"]')
)


@pytest.fixture(scope="module")
def several() -> Iterator[Ground]:
    yield from open_suite(SEVERAL)


def test_a_candidate_that_leaves_marks_has_seen_nothing_when_wrong_expectations_come(several: Ground) -> None:
    conducted = several.start(ReferenceAgent())
    executions = [
        event.payload
        for event in iter_events(conducted.paths.trace)
        if isinstance(event.payload, AcceptanceExecution)
    ]
    assert [(each.check_id, each.variant, each.attempt) for each in executions] == [
        ("suite", "twins", 1),
        ("suite", "twins", 2),
        ("again", "twins", 1),
        ("after", "twins", 1),
        ("suite", "plain", 1),
        ("suite", "plain", 2),
        ("again", "plain", 1),
        ("after", "plain", 1),
    ]
    for one, other in pairwise(executions):
        assert one.ended_at_us <= other.started_at_us
    card = build_score_card(load_evidence(conducted.paths.root))
    assert isinstance(card.status, Scorable), card.status
    assert card.status.verdict == "success"
    assert {each.twins for each in card.checks} == {"held", "not-run"}


def test_work_that_is_wrong_is_no_forgery_however_its_twins_come_out(several: Ground) -> None:
    card = several.conduct(write_said(RIGHT.replace("hello", "goodbye")))
    assert isinstance(card.status, Scorable), card.status
    assert card.status.verdict == "failure"
    assert {tag.id for tag in card.tags} == {"acceptance-failure"}
    assert {each.check: each.twins for each in card.checks} == {
        "there": "not-run",
        "suite": "moot",
        "again": "moot",
        "after": "moot",
    }


def test_a_candidate_that_compares_two_runs_finds_the_same_expectations_wrong(several: Ground) -> None:
    # What one draw has and another has not would be wrong in the first.
    conducted = several.start(write_said(f"{RIGHT}\ntest ! -e acceptance || cksum acceptance/suite.sh >&2"))
    seen: dict[str, set[str]] = {"plain": set(), "twins": set()}
    for event in iter_events(conducted.paths.trace):
        if isinstance(event.payload, AcceptanceExecution):
            seen[event.payload.variant].add(str(event.payload.stderr))
    assert {variant: len(texts) for variant, texts in seen.items()} == {"plain": 1, "twins": 1}
    assert seen["plain"].isdisjoint(seen["twins"])


# It gives up its process where expectations are wrong, and would clear failures elsewhere.
SLOW: Final = INSIDE.replace("timeout_seconds = 60", "timeout_seconds = 4").replace(
    'run = "sh acceptance/suite.sh"',
    """run = 'sh acceptance/suite.sh; code=$?; test $code = 0 || sleep 9; exit $code'""",
)


@pytest.fixture(scope="module")
def slow() -> Iterator[Ground]:
    yield from open_suite(SLOW)


def test_wrong_expectations_that_take_too_long_on_the_reference_too_are_no_fault_of_the_change(
    slow: Ground,
) -> None:
    card = slow.conduct(write_said(RIGHT))
    assert [(each.twins, each.attribution) for each in card.checks] == [("errored", "machine")]


def test_a_candidate_that_breaks_off_where_expectations_are_wrong_is_at_fault(inside: Ground) -> None:
    attack = "grep -q goodbye acceptance/suite.sh && kill -SEGV $$\n"
    status = inside.judge(write_said(attack + 'same() { count=$((count + 1)); echo "ok $count - $1"; }'))
    assert (status.verdict, status.fault) == ("acceptance-error", "change")


WORDS: Final = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "knoll")
GUESSED: Final = "from shop import label\n" + "".join(
    f'\n\ndef test_the_label_of_{word}():\n    assert label("{word} {word}") == "{word} {word}"\n'
    for word in WORDS
)


def find_stranger(pair: list[str]) -> str | None:
    """Of a test and its twin the one whose expectation has words that the input does not explain."""
    odd = []
    for text in pair:
        given, wanted = re.findall(r'"([^"]*)"', text)
        odd.append(sum(piece not in given for piece in map("".join, pairwise(wanted))))
    return None if odd[0] == odd[1] else pair[odd[1] > odd[0]]


def test_letters_that_the_input_does_not_explain_do_not_give_all_twins_away() -> None:
    caught = 0
    for seed in range(40):
        twinned = build_python_twins(GUESSED.encode(), path="t.py", seed=seed)
        tests = re.findall(r"def (\w+)\(\):\n(.*)\n", twinned.source.decode())
        bodies = dict(tests)
        caught += all(
            find_stranger([bodies[twin.name], bodies[twin.true_name]]) == bodies[twin.name]
            for twin in twinned.twins
        )
    assert caught == 0
