"""Runs of another harness with event documents, metrics and outcomes that a test chooses."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from repotrial.retrieval import EvaluationOptions, Outcome, RankingRule, RetrievalPlaces, evaluate
from repotrial.retrieval._documents import Coverage, EventsDocument, GroundTruth, Provenance, RetrievalEvent

BATCH = "2026-03-01__12-00-00"
NOW = "2026-03-01T13:00:00Z"


class TrialPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to write."""

    config: str
    task: str
    met: Sequence[str] = ("src/a.py",)
    """Files that its events met, one each, ten seconds and a thousand tokens apart."""
    relevant: Sequence[str] = ("src/a.py", "src/b.py")
    reward: Any = 1.0
    cost_usd: Any = 0.5
    seconds: int = 60
    output_tokens: Any = 100
    model: str | None = "example-large"
    version: str = "1.0"
    number: int = 1
    """Which repeat."""
    stated: str | None = None
    """The task's name in `result.json`, where it differs."""
    category: str = "file_read"
    confidence: str = "high"


def write_runs(root: Path, plans: Sequence[TrialPlan], *, rule: RankingRule = "reads") -> Path:
    """Write trials as a harness would, normalized and evaluated; the run directory."""
    run = root / "fix_2026"
    for plan in plans:
        _write_trial(run, plan)
    places = RetrievalPlaces(directory=run)
    options = EvaluationOptions(rule=rule, generated_at=NOW)
    evaluate(places.iter_documents(left_out=()), places.summary, options)
    return run


def plan_example(tasks: int = 30, seed: int = 4) -> list[TrialPlan]:
    """Two configurations of which one finds more, and whose rewards go along with it."""
    rng = random.Random(seed)
    relevant = ("src/core/a.py", "src/core/b.py", "src/util/c.py")
    plans = []
    for task in range(tasks):
        hardness = rng.random()
        for config, skill in (("baseline-local", 0.35), ("mcp-remote", 0.6)):
            met: list[str] = []
            for step in range(rng.randint(3, 18)):
                is_hit = rng.random() < skill * (1 - 0.7 * hardness) * 0.5
                met.append(rng.choice(relevant) if is_hit else f"src/other/module_{step}.py")
            share = len(set(met) & set(relevant)) / 3
            plans.append(
                TrialPlan(
                    config=config,
                    task=f"task-{task:03}",
                    met=met,
                    relevant=relevant,
                    reward=round(min(1.0, max(0.0, share * 0.6 + rng.gauss(0.2, 0.15))), 2),
                    cost_usd=round(0.2 + 0.05 * len(met) + rng.random() * 0.2, 3),
                    seconds=40 + 11 * len(met),
                    output_tokens=100 * len(met) + rng.randint(0, 300),
                )
            )
    return plans


def refuse_to_judge(directory: Path) -> Outcome:
    raise AssertionError(f"{directory} is no run of this harness")


def _write_trial(run: Path, plan: TrialPlan) -> None:
    name = f"{plan.task}__{plan.config[:3].title()}{plan.number:04}"
    trial = run / plan.config / BATCH / name
    trial.mkdir(parents=True)
    minutes, seconds = divmod(plan.seconds, 60)
    result = {
        "task_name": plan.stated or plan.task,
        "trial_name": name,
        "agent_info": {
            "name": "example-agent",
            "version": plan.version,
            "model_info": None if plan.model is None else {"name": plan.model},
        },
        "agent_result": {"n_output_tokens": None, "cost_usd": None},
        "verifier_result": {"rewards": {"reward": plan.reward}},
        "agent_execution": {
            "started_at": "2026-03-01T12:00:00",
            "finished_at": f"2026-03-01T12:{minutes:02}:{seconds:02}",
        },
    }
    (trial / "result.json").write_text(json.dumps(result))
    metrics = {"cost_usd": plan.cost_usd, "output_tokens": plan.output_tokens, "wall_clock_seconds": 9999}
    (trial / "task_metrics.json").write_text(json.dumps(metrics))
    file = plan.task if plan.number == 1 else f"{plan.task}__r{plan.number}"
    target = run / "retrieval_events" / plan.config / f"{file}.retrieval_events.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(msgspec.json.encode(_build_document(run.name, name, plan)))


def _build_document(run_id: str, trial: str, plan: TrialPlan) -> EventsDocument:
    events = [
        RetrievalEvent(
            step_index=step,
            timestamp=None,
            tool_name="Read",
            tool_category=plan.category,  # type: ignore[arg-type]  # a test's word
            target_files=(path,),
            is_mcp=plan.config.startswith("mcp"),
            elapsed_seconds=10.0 * (step + 1),
            cumulative_tokens=1000 * (step + 1),
        )
        for step, path in enumerate(plan.met)
    ]
    return EventsDocument(
        schema_version="1.1",
        generated_at=NOW,
        provenance=Provenance(
            run_id=run_id,
            task_name=plan.task,
            config_name=plan.config,
            benchmark="unknown",
            batch_timestamp=BATCH,
            trial_name=trial,
            model=plan.model,
        ),
        coverage=Coverage(
            has_trajectory=bool(events),
            has_transcript=False,
            has_ground_truth=bool(plan.relevant),
            trace_source="trajectory" if events else None,
            degraded_reason=None if events else "nothing was recorded",
            ground_truth_source="reference.patch",
            ground_truth_confidence=plan.confidence,  # type: ignore[arg-type]  # a test's word
        ),
        ground_truth=GroundTruth(files=tuple(plan.relevant)),
        events=tuple(events),
    )
