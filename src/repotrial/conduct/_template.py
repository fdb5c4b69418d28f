"""`pilot init`: a complete `pilot.toml` with a comment for everything that an operator decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from repotrial.analysis import PilotArm

_HEAD: Final = """\
# A pilot: who is compared, on what, how often, at what cost, and what follows from it.
# `repotrial pilot plan` reads it and spends nothing; `repotrial pilot freeze` makes it final.
schema = "repotrial/pilot@1"
id = {id}
suite = {suite}                 # relative to this file; `repotrial suite lock` made its lock
smallest_effect = 0.20          # the smallest difference of success rates that would matter to you
level = 0.05                    # chance of a false alarm, over all contrasts together
flakiness_tolerance = 0.0       # share of repeated judgments that may differ
# seed = 20260307               # of the order of tasks and arms; any other is a deviation
# prices = "prices.csv"         # a price book; the bundled one if left out
# thresholds = "thresholds.toml"

# Conditions of all arms. Caps are enforced; effort, output and context limits and retries are recorded
# with every run, and an agent's own file says how its program takes them.
[conditions]
# effort = "medium"

[caps]
# wall_seconds = 1800
# tokens = 2000000

[stages]
stage_2 = 1                     # runs of each arm on each task after stage 2
doubled_share = 0.25            # part of the tasks with two: it shows how much runs differ by themselves
most = 3                        # most runs of each arm on each task after stage 3

[strata]                        # at most two factors; cells below smallest_cell are merged
factors = ["ecosystem", "kind"] # of: ecosystem, kind, test-seconds, dependencies, tier
smallest_cell = 4
test_seconds = [10, 120]        # cut points are assumptions: see below
dependencies = [10, 50]
tier_lines = [2000, 20000]

[envelopes]                     # over all four terms: models, execution, people, overhead
run_usd = 5.00
task_usd = {task_usd}
total_usd = {total_usd}

[adjudication]                  # only for contracts that are known to be flaky
contracts = []
passes = 2
reruns = 3

[stopping]
looks = [0.5, 0.75, 1]          # shares of complete tasks, in stage 3
least_tasks = 20                # no look before
# contrast = {contrast}         # the one contrast that may stop the pilot; none if left out
# assumptions = ["planning-values"]   # what the rule rests on; it is off where stage 2 refutes one
is_futility_used = false
safety_breaches = 1             # so many boundary violations stop the pilot

[power]                         # planning values; where they come from: power-analysis.json
rate = 0.5
icc = 0.65
pair_correlation = 0.65
power = 0.8

[review]
sample_share = 0.1              # chance of each unflagged run to be looked at by a person
reviewers = 1

[decision]                      # adopt, do not adopt, or not decided
contrast = {contrast}
adopt_above = 0.0               # adopt if the whole interval lies above …
most_usd_per_success = 10.00    # … and a success costs at most this
reject_below = 0.0              # do not adopt if the whole interval lies below
"""
_TAIL: Final = """
# What stage 3 may lift: caps and waits only, each with its reason.
# [[relaxations]]
# field = "wall_seconds"
# value = 3600
# justification = "..."

[[assumptions]]
id = "planning-values"
text = "Rates, ICC and pair correlation are like those of public trials."
source = "3,543 public trials; power-analysis.json"
refuted_by = "the blinded variance after stage 2"

[[assumptions]]
id = "exchangeable-tasks"
text = "Tasks are a fair sample of the work that the decision is about."
source = "how the suite was chosen"
refuted_by = "a stratum that the work has and the suite does not"

[[assumptions]]
id = "cut-points"
text = "The cut points of the strata separate easy from hard."
source = "judgment"
refuted_by = "equal results on both sides of a cut point"

[[risks]]
asset = "the budget"
boundary = "agent to model provider"
threat = "an agent that never ends"
mitigation = "caps of a run, envelopes, breakers"
cost_impact = "high"
harm = "low"

[[risks]]
asset = "this machine and its network"
boundary = "sandbox to host"
threat = "an agent that leaves its sandbox"
mitigation = "isolation level L3, no network, witness, stop at the first breach"
cost_impact = "low"
harm = "high"

[[risks]]
asset = "internal code"
boundary = "agent to registries and providers"
threat = "code is sent out, or a dependency brings some in"
mitigation = "declared network only, review of every change of a dependency"
cost_impact = "low"
harm = "high"

[[risks]]
asset = "keys and build machines"
boundary = "harness to CI"
threat = "a job that runs candidate code holds a secret, or keeps its files for the next one"
mitigation = "secrets stay in the gateway, checks have no network, every run has a fresh workspace"
cost_impact = "medium"
harm = "high"

[[risks]]
asset = "the result"
boundary = "candidate to checks"
threat = "a change that passes without solving the task"
mitigation = "certified contracts, twins, review of a random sample"
cost_impact = "medium"
harm = "medium"
"""


def render_pilot(name: str, suite: str, arms: Sequence[PilotArm], *, tasks: int) -> str:
    """The text of a new `pilot.toml`; the first two arms are the first contrast."""
    choices = [*arms]
    if not any(arm.agent == "noop" for arm in choices):
        choices.append(PilotArm(name="noop", agent="noop"))
    if not any(arm.agent == "reference" for arm in choices):
        choices.append(PilotArm(name="reference", agent="reference"))
    candidates = [arm for arm in choices if arm.agent not in ("noop", "reference")] or choices
    first, other = candidates[0], (candidates[1] if len(candidates) > 1 else choices[-1])
    contrast = f"{first.name}-against-{other.name}"[:60].strip("-._")
    runs = 3 * len(choices)
    head = _HEAD.format(
        id=json.dumps(name),
        suite=json.dumps(suite),
        contrast=json.dumps(contrast),
        task_usd=f"{5 * runs:.2f}",
        total_usd=f"{5 * runs * max(1, tasks):.2f}",
    )
    parts = [head, *(_render_arm(arm) for arm in choices)]
    parts.append(
        f"\n[[contrasts]]\nname = {json.dumps(contrast)}\narm = {json.dumps(first.name)}\n"
        f"against = {json.dumps(other.name)}\n"
    )
    return "".join([*parts, _TAIL])


def _render_arm(arm: PilotArm) -> str:
    role = "baseline" if arm.agent in ("noop", "reference") else "candidate"
    lines = [
        "\n[[arms]]",
        f"name = {json.dumps(arm.name)}",
        f"agent = {json.dumps(arm.agent)}",
        f'role = "{role}"',
    ]
    if arm.model is not None:
        lines.append(f"model = {json.dumps(arm.model)}")
    if arm.upstream is not None:
        lines.append(f"upstream = {json.dumps(arm.upstream)}")
    if role == "candidate":
        lines += [
            '# briefing = "words.md"       # what this arm is told beside the task',
            "# expected_usd = 0.50         # presumed cost of a run; the cap stands in if left out",
        ]
    return "\n".join(lines) + "\n"
