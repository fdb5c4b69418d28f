"""`repotrial run start`: agents on contracts, as many at a time as wanted; what was done before is kept."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.cli._elsewhere import STORE_UNNAMED, start_elsewhere, tell_shared
from repotrial.cli._machine import (
    CacheOption,
    CustodyOption,
    SkipFlag,
    build_settings,
    make_runs_directory,
    tell_left_out,
)
from repotrial.cli._options import LevelOption, PricesOption
from repotrial.cli._output import Screen, counted, print_json_line, print_table
from repotrial.cli._progress import Tally, open_progress, tell_budgets, tell_neighbors
from repotrial.cli._signals import stop_on_signals
from repotrial.cli._trace import find_key_file

_LOOK_EVERY_SECONDS = 0.2


def build_handover(screen: Screen, stopper: api.Stopper) -> Callable[[Path, str, int], bool]:
    """What a run calls when it is a person's turn."""

    def hand_over(workspace: Path, briefing: str, seconds: int) -> bool:
        for line in briefing.split("\n"):
            screen.line(line)
        screen.line(("work in: ", "bold"), str(workspace))
        screen.line(
            (
                f"press Enter when you are done; there are {seconds / 60:.0f} minutes, and the clock runs",
                "bold",
            )
        )
        return _wait(seconds, stopper.verify_going)

    return hand_over


def _wait(seconds: int, verify_going: Callable[[], None]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        verify_going()
        ready, _, _ = select.select([sys.stdin], [], [], _LOOK_EVERY_SECONDS)
        if ready:
            sys.stdin.readline()  # an end of input (Ctrl-D) says the same
            return True
    return False


_MAX_NAMED = 5


NOTHING_TO_RUN = ErrorCode(
    "nothing-to-run",
    UsageError,
    "No agent fits any of the contracts.",
    hint="name the contracts that the predictions are for",
)


def start(  # noqa: PLR0913 - one option for each thing that an operator decides
    contracts: Annotated[
        list[Path],
        typer.Argument(metavar="CONTRACT...", readable=False, help="Contract directories, locked."),
    ],
    *,
    agents: Annotated[
        list[str],
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="noop, reference, human, patch:FILE, script:FILE, 'command:PROGRAM ARGS' or "
            "predictions:FILE (SWE-bench JSONL), or one of `repotrial agent list`; repeatable. In the FILE "
            "of a patch or a script, {contract} stands for the contract's id.",
        ),
    ],
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Runs of each agent on each contract.")
    ] = 1,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 1,
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", readable=False, help="Where run directories are made.")
    ] = Path("runs"),
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Root seed; any but the planned one is a deviation.")
    ] = ROOT_SEED,
    level: LevelOption = Level.L3,
    cache: CacheOption = None,
    again: Annotated[bool, typer.Option("--again", help="Run again even if a result exists.")] = False,
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME",
            help="A secret of the contract, from the environment variable of that name (repeatable).",
        ),
    ] = None,
    custody: CustodyOption = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The private key that seals; this machine's own if left out.",
        ),
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream",
            metavar="WHO",
            help="The model source: provider:NAME (openai, anthropic, gemini), provider:FILE.toml, "
            "script:FILE.toml or recording:RUN_DIR.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model; each agent has a default.")
    ] = None,
    prices: PricesOption = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(
            "--thresholds", metavar="TOML", readable=False, help="Breakers' thresholds in place of ours."
        ),
    ] = None,
    task_budget: Annotated[
        float | None,
        typer.Option(
            "--task-budget",
            metavar="USD",
            min=0,
            help="For all runs on one contract together, over all four cost terms; units with --prices none.",
        ),
    ] = None,
    total_budget: Annotated[
        float | None,
        typer.Option(
            "--total-budget",
            metavar="USD",
            min=0,
            help="For all runs together, over all four cost terms; units with --prices none.",
        ),
    ] = None,
    unit_cap: Annotated[
        int,
        typer.Option(
            "--unit-cap",
            metavar="UNITS",
            min=0,
            help="For each run, where it is priced in abstract units (a policy choice).",
        ),
    ] = 1_000_000,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would run, how long and at what cost; start nothing. --store gets the plan.",
        ),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help="Share the plan in a store (file:DIR, s3://BUCKET/PREFIX) for `repotrial fleet work`.",
        ),
    ] = None,
    engine: Annotated[
        Literal["slurm", "dask", "kubernetes"] | None,
        typer.Option("--on", help="Have this engine start workers on the plan in --store."),
    ] = None,
    engine_file: Annotated[
        Path | None,
        typer.Option(
            "--engine", metavar="TOML", readable=False, help="How the engine starts them: number, slots …"
        ),
    ] = None,
    skip_unavailable: SkipFlag = False,
    skip_upstream_check: Annotated[
        bool,
        typer.Option(
            "--skip-upstream-check", help="Do not ask the provider for one word before the first run."
        ),
    ] = False,
    expect: Annotated[
        Literal["success"] | None,
        typer.Option("--expect", help="End with exit code 1 unless every run is a success."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event, one per line.")
    ] = False,
) -> None:
    """Put agents on trial. Runs that have a result are not repeated, so a command can be stopped and resumed.

    The exit code says whether the runs were conducted, not whether an agent succeeded (see --expect): 3 if
    some were not, or if this machine lacks what a contract needs (see --skip-unavailable); 130 after Ctrl-C;
    runs in progress are sealed and kept.
    """
    request = api.TrialRequest(
        contracts=tuple(contracts),
        agents=tuple(agents),
        conditions=api.RunConditions(runs=runs, level=level, root_seed=seed, repeats=repeats, is_fresh=again),
        jobs=jobs,
        skips_unavailable=skip_unavailable,
        skips_upstream_check=skip_upstream_check,
        models=api.ModelChoice(
            upstream=upstream,
            model=model,
            prices=None if prices == api.NO_PRICES else prices,
            is_abstract=prices == api.NO_PRICES,
            unit_cap=unit_cap,
            thresholds=thresholds,
            task_budget=_to_decimal(task_budget),
            total_budget=_to_decimal(total_budget),
            ledger=runs / "ledger.jsonl",
        ),
    )
    if engine is not None and store is None:
        raise STORE_UNNAMED.error(f"--on {engine}: expected --store, found none")
    plan = api.plan_trials(request, build_settings(cache, secrets=secrets or (), custody=custody))
    _tell_unmatched(plan, json=json)
    if not plan.fleet.runs:
        raise NOTHING_TO_RUN.error("expected an agent for one of the contracts, found none")
    if not (json and dry_run):  # the plan has both
        _tell_left_out(plan, json=json)
        _tell_uncertified(plan, json=json)
    if store is not None:
        promises = api.Fleet(store, os.environ).share_trials(plan, key_file=find_key_file(key_file))
        tell_shared(plan, store, promises, json=json)
    if dry_run:
        _show_plan(plan, json=json)
        return
    if store is not None:
        start_elsewhere(engine, engine_file, store, find_key_file(key_file), json=json)
        return
    plan.verify_person(has_terminal=sys.stdin.isatty())
    if plan.fleet.missing:
        tell_neighbors(jobs, plan.request.conditions.level, json=json)
        make_runs_directory(runs)
        api.keep_request(request)
    _conduct(plan, key_file, is_success_expected=expect is not None, json=json)


def retry(
    cause: Annotated[
        Literal["provider", "configuration", "shared-envelope", "machine", "harness", "operator"],
        typer.Option("--cause", help="Repeat the runs whose last attempt this excuses."),
    ],
    *,
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", readable=False, help="Where the run directories are.")
    ] = Path("runs"),
    cache: CacheOption = None,
    secrets: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="NAME", help="A secret of the contract (repeatable)."),
    ] = None,
    custody: CustodyOption = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", readable=False, help="The private key that seals."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event, one per line.")
    ] = False,
) -> None:
    """Repeat runs that ended for a cause which is not the agent's, as they were started.

    Each planned run is repeated at most twice; after that it is indeterminate. What counts is not repeated.
    """
    for request in api.load_requests(runs, cause):
        settings = build_settings(cache, secrets=secrets or (), custody=custody)
        plan = api.plan_trials(request, settings)
        if plan.fleet.missing:
            _conduct(plan, key_file, is_success_expected=False, json=json)
        elif not json:
            Screen().line(f"nothing to repeat: no run is excused for {cause}, or it was repeated twice")


def _to_decimal(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def _tell_unmatched(plan: api.TrialPlan, *, json: bool) -> None:
    for instance in plan.unmatched:
        if json:
            print_json_line({"event": "unmatched", "instance": instance})
        else:
            Screen(to_stderr=True).line(
                ("warning", "yellow"), f": no contract was named for the prediction {instance}"
            )


def _tell_left_out(plan: api.TrialPlan, *, json: bool) -> None:
    if not json:
        tell_left_out(plan.left_out)
    elif plan.left_out:
        print_json_line({"event": "left-out", "contracts": plan.left_out})


def _tell_uncertified(plan: api.TrialPlan, *, json: bool) -> None:
    """What a verdict is worth depends on the contract; one line, however many there are."""
    from repotrial._core.display import list_some

    if not plan.uncertified:
        return
    if json:
        print_json_line({"event": "uncertified", "contracts": plan.uncertified})
        return
    named = list_some(plan.uncertified, most=_MAX_NAMED)
    Screen(to_stderr=True).line(
        ("note", "yellow"), f": not certified: {named}; `repotrial contract certify` tries them"
    )


def _show_plan(plan: api.TrialPlan, *, json: bool) -> None:
    if json:
        print_json_line(plan.to_dict())
        return
    screen = Screen()
    fleet, jobs = plan.fleet, plan.request.jobs
    rows = [
        [
            run.spec.contract_id,
            label,
            str(run.spec.replicate),
            ("to be conducted", "bold") if run.conducted is None else str(run.conducted),
        ]
        for run, label in zip(fleet.runs, plan.agent_labels, strict=True)
    ]
    print_table(screen, ("contract", "agent", "rep", "state"), rows)
    missing = len(fleet.missing)
    done = len(fleet.runs) - missing
    screen.line(f"{counted(missing, 'run')} to conduct, {done} conducted before")
    share = f", with {jobs} at a time about {_duration(fleet.ceiling_seconds / jobs)}" if jobs > 1 else ""
    screen.line(
        f"at most {_duration(fleet.ceiling_seconds)} one after the other, by the contracts' limits{share}"
    )
    screen.line(_describe_ceiling(fleet.ceiling_usd, plan.request.models))


def _describe_ceiling(ceiling: Decimal, models: api.ModelChoice) -> str:
    """What models can cost at most, and by whose limit."""
    if models.upstream is not None and not models.upstream.startswith("provider:"):
        return "nothing for models: no provider is asked"
    total = models.total_budget
    if total is not None and total < ceiling:
        return f"at most {total:.2f} USD for models, by --total-budget (by the contracts' limits: {ceiling})"
    return f"at most {ceiling} USD for models, by the contracts' limits"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _conduct(plan: api.TrialPlan, key_file: Path | None, *, is_success_expected: bool, json: bool) -> None:
    key = find_key_file(key_file)
    screen, stopper, tally = Screen(), api.Stopper(), Tally(run.spec.run_id for run in plan.fleet.runs)
    with stop_on_signals(stopper.stop) as asked:
        events = api.conduct_trials(
            plan,
            key_file=key,
            stopper=stopper,
            handover=build_handover(screen, stopper),
            on_install=lambda name: Screen(to_stderr=True).line(f"installing {name} …"),
        )
        with open_progress(
            screen, total=len(plan.fleet.runs), as_json=json, has_person=plan.has_person
        ) as progress:
            for event in events:
                tally.count(event)
                progress.show(event)
    tell_budgets(plan.request, screen, json=json)
    tally.report(screen, plan.request.conditions.runs, is_stopped=asked.exit_code is not None, json=json)
    code = asked.exit_code or tally.find_exit_code(is_success_expected=is_success_expected)
    if code:
        raise typer.Exit(code)
