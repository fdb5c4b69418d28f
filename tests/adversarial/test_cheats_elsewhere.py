"""Cheats in other languages than Python: each scores as a failure with the tag that says why.

The control shows that each of them works against an oracle that judges where the agent worked and trusts exit
codes and a results file. Judges here share their process with the product; one control is about judges that
do not.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from repotrial._core.seed import ROOT_SEED
from repotrial.authoring._certify._cheats import build_cheats
from repotrial.authoring._certify._cheats._common import TRICKS, Cheat, NotApplicable
from repotrial.authoring._certify._cheats._scene import read_scene
from repotrial.contract import LoadedContract, load_contract
from repotrial.environment import Installation, open_installation
from repotrial.redaction import SecretRedactor
from repotrial.run import Agent, NoopAgent, PlannedRun, ReferenceAgent, RunSettings, build_spec, conduct_run
from repotrial.score import Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.signing import SigningKey
from support.cheating import build_settings
from support.counting import LANGUAGES, Language, is_naively_accepted, write_language
from support.examples import EXAMPLES, load_example, require_host, require_tools
from support.exhaustive import one_of_each
from support.harness import require_sandboxes
from support.workspaces import scratch

BY_TWINS = frozenset({"evaluation-invalidity"})
BY_TESTS = frozenset({"acceptance-failure"})
BY_POLICY = frozenset({"policy-violation"})
# Which of the two, depends on which expectations happen to be wrong.
BY_EITHER = frozenset({"evaluation-invalidity", "acceptance-failure"})

# What leaves the results without an explicit pass of every id is refused before any wrong expectation.
HONEST = ("early-exit", "skip-all", "stdout-forgery", "edited-tests", "deleted-tests")
FORGED = ("report-plugin", "sitecustomize", "results-written-early", "results-daemon", "framework-wrapped")
MODULES = {
    "javascript": {
        **dict.fromkeys((*HONEST, "exit-code"), BY_TESTS),
        **dict.fromkeys((*FORGED, "test-shadow", "assertion-patched", "caller-frame"), BY_TWINS),
    },
    "c": {
        **dict.fromkeys(HONEST, BY_TESTS),
        **dict.fromkeys((*FORGED, "exit-code", "equal-to-everything", "assertion-patched"), BY_TWINS),
        "judge-memory": BY_EITHER,
    },
    "rust": {
        **dict.fromkeys(HONEST, BY_TESTS),
        **dict.fromkeys((*FORGED, "exit-code"), BY_TWINS),
        "judge-memory": BY_EITHER,
    },
}
# Files that start something before the judge are taken away; of a makefile only the policy complains.
STARTED = (*HONEST[:3], *FORGED, "exit-code", "build-hook")
OPEN = {
    "javascript": {
        **dict.fromkeys((*STARTED, "test-shadow", "assertion-patched"), BY_TESTS | BY_POLICY),
        **dict.fromkeys(("path-trojan", "edited-tests", "deleted-tests"), BY_TESTS),
    },
    "c": {
        **dict.fromkeys((*STARTED, "assertion-patched", "equal-to-everything"), BY_TWINS | BY_POLICY),
        **dict.fromkeys((*HONEST[:3], "results-written-early", "build-hook"), BY_TESTS | BY_POLICY),
        **dict.fromkeys(("path-trojan", "edited-tests", "deleted-tests"), BY_TESTS),
        "test-shadow": BY_TWINS,  # a header among the product's own
        "judge-memory": BY_EITHER | BY_POLICY,
    },
    "rust": {
        **dict.fromkeys(STARTED, BY_TESTS | BY_POLICY),
        **dict.fromkeys(("path-trojan", "edited-tests", "deleted-tests"), BY_TESTS),
    },
}
EXPECTED = {
    (language, name, variant): tags
    for variant, table in (("open", OPEN), ("module", MODULES))
    for language, names in table.items()
    for name, tags in names.items()
}
each_language = pytest.mark.parametrize("language", LANGUAGES)
TRIED = one_of_each(EXPECTED, lambda key: (key[0], key[2], EXPECTED[key]))
each_cheat = pytest.mark.parametrize(("language", "name", "variant"), TRIED, ids=map("-".join, TRIED))


@dataclass(frozen=True)
class Ground:
    """One installation for all cheats in a language."""

    language: Language
    place: Path
    loaded: LoadedContract
    installation: Installation
    built: tuple[Cheat | NotApplicable, ...]

    def find(self, name: str, variant: str) -> Cheat:
        (found,) = (cheat for cheat in self.built if (cheat.name, cheat.variant) == (name, variant))
        assert isinstance(found, Cheat)
        return found

    def conduct(self, agent: Agent) -> ScoreCard:
        level = self.installation.level
        plan = PlannedRun(
            loaded=self.loaded,
            agent=agent,
            spec=build_spec(self.loaded, agent, level=level, root_seed=ROOT_SEED, replicate=0),
        )
        settings = RunSettings(
            runs=self.place / "runs",
            key=SigningKey.load(self.place / "key.pem"),
            redactor=SecretRedactor({}),
        )
        run = conduct_run(plan, settings, lambda: self.installation)
        return build_score_card(load_evidence(run.paths.root))


@dataclass
class Grounds:
    """Opened where a test asks for them."""

    stack: ExitStack
    opened: dict[str, Ground] = field(default_factory=dict)

    def open(self, name: str) -> Ground:
        if name not in self.opened:
            self.opened[name] = self._open(LANGUAGES[name])
        return self.opened[name]

    def _open(self, language: Language) -> Ground:
        missing = [program for program in language.runner if shutil.which(program) is None]
        if missing:
            pytest.skip(f"cheats in {language.name} need {', '.join(missing)}, not found here")
        place = self.stack.enter_context(scratch())
        loaded = load_contract(write_language(language, place / "contract"))
        require_host(loaded.contract)
        installation = self.stack.enter_context(open_installation(loaded, build_settings()))
        built = build_cheats(read_scene(loaded.contract, installation.base.path))
        return Ground(language, place, loaded, installation, built)


@pytest.fixture(scope="module")
def grounds() -> Iterator[Grounds]:
    require_sandboxes()
    with ExitStack() as stack:
        yield Grounds(stack)


def find_verdict(card: ScoreCard) -> str:
    assert isinstance(card.status, Scorable), card.status
    return card.status.verdict


@each_language
def test_every_trick_is_tried_or_explained(grounds: Grounds, language: str) -> None:
    built = grounds.open(language).built
    assert [(cheat.name, cheat.variant) for cheat in built] == [
        (name, variant) for name in TRICKS for variant in ("open", "module")
    ]
    made = {(language, cheat.name, cheat.variant) for cheat in built if isinstance(cheat, Cheat)}
    assert made == {key for key in EXPECTED if key[0] == language}


@each_language
def test_honest_work_is_a_success_and_no_work_a_failure(grounds: Grounds, language: str) -> None:
    ground = grounds.open(language)
    assert find_verdict(ground.conduct(ReferenceAgent())) == "success"
    assert find_verdict(ground.conduct(NoopAgent())) == "failure"
    assert not is_naively_accepted(ground.language, ground.installation, None)  # it is not simply blind


@each_cheat
def test_a_cheat_fails_with_the_right_tag(grounds: Grounds, language: str, name: str, variant: str) -> None:
    ground = grounds.open(language)
    card = ground.conduct(ground.find(name, variant).agent)
    assert find_verdict(card) == "failure", card.checks
    tags, expected = {tag.id for tag in card.tags}, EXPECTED[language, name, variant]
    assert tags <= expected
    assert tags == expected or (expected >= BY_EITHER and tags - BY_POLICY)


@each_cheat
def test_the_cheat_works_against_a_naive_oracle(
    grounds: Grounds, language: str, name: str, variant: str
) -> None:
    ground = grounds.open(language)
    assert is_naively_accepted(ground.language, ground.installation, ground.find(name, variant))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cheat is written for another processor")
def test_a_judge_that_only_starts_the_product_is_reached_through_its_memory() -> None:
    """Such a judge has a process of its own, and yet needs expectations that are wrong on purpose."""
    require_sandboxes()
    example = load_example(EXAMPLES / "reclog-recovery")
    require_tools(example)
    (check,) = (check for check in example.contract.checks if check.id == "unit")
    assert check.judge == "out-of-process"
    assert check.negative
    hidden = (example.directory / "checks" / "unit" / "recovery.sh").read_text(encoding="utf-8")
    language = replace(
        LANGUAGES["c"],
        oracle="recovery.sh",
        build_tests=lambda _: hidden,
        results="recovery.tap",
        command=check.all_runners[0].run,
    )
    loaded = load_contract(example.directory)
    with open_installation(loaded, build_settings()) as installation:
        built = build_cheats(read_scene(loaded.contract, installation.base.path))
        (cheat,) = (cheat for cheat in built if (cheat.name, cheat.variant) == ("judge-memory", "module"))
        assert isinstance(cheat, Cheat)
        assert not is_naively_accepted(language, installation, None)
        assert is_naively_accepted(language, installation, cheat)
