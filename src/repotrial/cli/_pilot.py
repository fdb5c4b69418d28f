"""`repotrial pilot`: the noun with its verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._machine import build_settings
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, ScreenPart, counted, print_json, print_table
from repotrial.cli._pilot_analyze import analyze, bundle
from repotrial.cli._pilot_review import review
from repotrial.cli._pilot_run import PilotDirectory, run, status
from repotrial.cli._trace import find_key_file

app = noun("pilot", "Pilots: plan, freeze, conduct and analyze a comparison.")
app.command(
    "analyze",
    short_help="Decision, rates, differences, ties and costs of a pilot or of a table.",
    epilog="Example: repotrial pilot analyze p1 --out analysis; or --table trials.csv",
)(analyze)
app.command(
    "bundle",
    short_help="Pack a conducted pilot and its analysis for an outsider.",
    epilog="Example: repotrial pilot bundle p1 --out p1.tar",
)(bundle)
app.command(
    "review",
    short_help="Runs that people look at: the queue, one case without names, a label.",
    epilog="Example: repotrial pilot review p1 --case CASE --label correct --reviewer ada --why TEXT "
    "--minutes 4",
)(review)
app.command(
    "run",
    short_help="Conduct a frozen pilot, stage by stage; can be stopped and resumed.",
    epilog="Example: repotrial pilot run p1 --jobs 4",
)(run)
app.command(
    "status",
    short_help="Progress, spend, causes and blinded power of a pilot.",
    epilog="Example: repotrial pilot status p1 --watch",
)(status)

BAD_PAIR = ErrorCode(
    "bad-pair",
    UsageError,
    "An option wants NAME=VALUE and got something else.",
    hint="write it as the example of --help shows",
)


@app.command(
    "init",
    short_help="Write a complete, commented pilot.toml for a locked suite.",
    epilog="Example: repotrial pilot init suite.toml --arm a=script:a.sh --arm b=script:b.sh --out p1",
)
def init(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", readable=False, help="The suite's file.")],
    *,
    arms: Annotated[
        list[str],
        typer.Option(
            "--arm",
            metavar="NAME=AGENT",
            help="An arm; AGENT as `run start --agent` takes it, "
            "and its model source behind a comma: NAME=pi@MODEL,script:FILE.toml. Repeatable; "
            "noop and reference are added.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="The pilot's directory.")
    ] = Path("pilot"),
    json: JsonFlag = False,
) -> None:
    """Write a pilot.toml with arms, strata, envelopes, rules, a decision, assumptions and risks."""
    path = api.init_pilot(suite, [_read_arm(arm) for arm in arms], out)
    if json:
        print_json({"path": str(path)})
        return
    screen = Screen()
    screen.line((f"written: {path}", "bold"))
    screen.line((f"next: edit it, then repotrial pilot plan {out}", "dim"))


def _read_arm(text: str) -> api.PilotArm:
    name, separator, agent = text.partition("=")
    if not separator:
        name, agent = text.partition("@")[0].rpartition(":")[2] or text, text
        name = Path(name).stem
    agent, _, upstream = agent.partition(",")
    return api.PilotArm(name=name, agent=agent, upstream=upstream or None)


@app.command(
    "plan",
    short_help="Strata, order, cost and power of a pilot; nothing is spent.",
    epilog="Example: repotrial pilot plan p1 --what-if tasks=80,repeats=2",
)
def plan(
    directory: PilotDirectory,
    *,
    what_if: Annotated[
        str | None,
        typer.Option("--what-if", metavar="tasks=N,repeats=K", help="Other numbers; nothing is written."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Plan a pilot: strata, one random order of all tasks, runs blocked by task, expected cost, power.

    A plan that could not show the smallest relevant effect is refused here. All artefacts are written to
    DIR/plan.
    """
    numbers = None if what_if is None else _read_numbers(what_if)
    result = api.plan_pilot(directory, build_settings(None), what_if=numbers)
    if json:
        print_json(result)
        return
    if isinstance(result, api.PowerAnalysis):
        _show_power(Screen(), result)
        return
    screen = Screen()
    rows = result.loaded.rows
    stages = [f"stage {stage}: {sum(row.stage == stage for row in rows)}" for stage in (1, 2, 3)]
    tasks = counted(len(result.loaded.plan.tasks), "task")
    arms = counted(len(result.loaded.plan.arms), "arm")
    screen.line((f"{tasks}, {arms}; runs: {', '.join(stages)} at most", "bold"))
    for cell, stratum in result.loaded.plan.merged.items():
        screen.line(f"  merged: {cell} into {stratum}")
    for deviation in result.loaded.plan.deviations:
        screen.line(("  deviation: ", "yellow"), deviation)
    _show_power(screen, result.power)
    screen.line((f"written: {directory}/plan: {', '.join(result.files)}", "dim"))
    screen.line((f"next: repotrial pilot freeze {directory}", "dim"))


def _read_numbers(text: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if name.strip() not in ("tasks", "repeats") or not value.strip().isdigit() or int(value) < 1:
            raise BAD_PAIR.error(f"--what-if: expected tasks=N or repeats=K of at least 1, found {pair!r}")
        numbers[name.strip()] = int(value)
    return numbers


def _show_power(screen: Screen, power: api.PowerAnalysis) -> None:
    rows: list[list[ScreenPart]] = [
        [
            str(row.repeats),
            f"{row.deviation:.3f}",
            _say(row.smallest_effect),
            f"{row.power:.2f}",
            f"{row.simulated:.2f}",
            f"{row.expected_usd:.2f}",
        ]
        for row in power.rows
    ]
    header = ("repeats", "sd", "smallest effect", f"power at {power.relevant_effect:g}", "simulated", "USD")
    print_table(screen, header, rows)
    shown = _say(power.endless)
    screen.line(f"smallest effect that endless repeats could show with {power.tasks} tasks: {shown}")
    needed = power.needed_tasks
    if isinstance(needed, int) and needed > power.tasks:
        screen.line(f"for {power.relevant_effect:g}, {needed} tasks would reach power {power.power:g}")
    if power.refusal is not None:
        screen.line(("refused: ", "bold yellow"), power.refusal)
    for note in power.notes:
        screen.line((f"note: {note}", "dim"))


def _say(value: object) -> str:
    """A figure, or why there is none."""
    return f"{value:.3f}" if isinstance(value, float) else str(getattr(value, "reason", value))


@app.command(
    "freeze",
    short_help="Sign the plan before the first run, or an amendment of it.",
    epilog="Example: repotrial pilot freeze p1",
)
def freeze(  # noqa: PLR0913 - one option for each thing that is signed or taken
    directory: PilotDirectory,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why the registration is amended.")
    ] = None,
    removed: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="TASK=WHY",
            help="Take a task out that is objectively invalid (repeatable); it is not replaced.",
        ),
    ] = None,
    conducting: Annotated[
        list[Path] | None,
        typer.Option(
            "--conducting-key",
            metavar="FILE",
            readable=False,
            help="Public key of a machine that may conduct (repeatable); this machine's own if left out.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", readable=False, help="The study's private key."),
    ] = None,
    time_stamp: Annotated[
        Path | None,
        typer.Option(
            "--time-stamp",
            metavar="FILE.tsr",
            readable=False,
            help="Instead of freezing: take an authority's response to registration.tsq, and verify it.",
        ),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            metavar="FILE.pem",
            readable=False,
            help="Root certificate of the authority of --time-stamp.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Digest and sign everything that decides: suite, plan, prices, rules, code, keys.

    A pilot that is frozen already gets a further, numbered version with its reason; nothing is ever edited.
    """
    if time_stamp is not None or authority is not None:
        _take_stamp(directory, time_stamp, authority, json=json)
        return
    pairs = dict(_read_pair(text) for text in removed or ())
    keys = api.load_trusted_keys(conducting, None) if conducting else []
    result = api.freeze_pilot(
        directory,
        build_settings(None),
        key_file=find_key_file(key_file),
        conducting=keys,
        reason=reason,
        removed=pairs,
    )
    if json:
        print_json(result)
        return
    screen = Screen()
    registration = result.registration
    screen.line((f"frozen: {result.path} (version {registration.version})", "bold"))
    screen.line(f"  digest    {result.digest}")
    screen.line(f"  suite id  {registration.suite_id}")
    for name in registration.changed:
        screen.line(f"  changed: {name}")
    if registration.restarts:
        screen.line(("  the count begins anew; earlier runs are shown apart", "yellow"))
    if result.stamp_request is not None:
        screen.line(f"  request for a time stamp: {result.stamp_request}")
    screen.line(("  keep the digest elsewhere (a commit, a mail): it shows that this came first", "dim"))
    screen.line((f"next: repotrial pilot run {directory}", "dim"))


def _take_stamp(directory: Path, response: Path | None, authority: Path | None, *, json: bool) -> None:
    if response is None or authority is None:
        raise BAD_PAIR.error(
            "expected --time-stamp and --authority, found one of them",
            hint="name the response (.tsr) and the authority's root certificate (.pem)",
        )
    stamp = api.stamp_registration(directory, response=response, authority=authority)
    if json:
        print_json(stamp)
        return
    screen = Screen()
    screen.line((f"stamped at {stamp.stamped_at}", "bold"), f" ({directory}/{stamp.file})")
    screen.line(f"  root certificate {stamp.authority}")


def _read_pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not value.strip():
        raise BAD_PAIR.error(f"--remove: expected TASK=WHY, found {text!r}")
    return name, value
