"""Runs of one agent as a log of Inspect: a zip archive of JSON documents, version 2 of the log's format.

Members are compressed with deflate, which every reader has. Samples stand whole in their files: nothing is
pooled, and no text is replaced by a reference.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from repotrial import __version__
from repotrial._core.absence import Unknown
from repotrial._core.clock import format_moment
from repotrial._core.digest import digest_bytes
from repotrial.interop._conversation import Step, ToldRun, read_conversation
from repotrial.interop._model import Exported, Loss, list_words
from repotrial.score import JudgedRun, find_status
from repotrial.trace import ResponseUsage, RunPaths

_LOG_VERSION: Final = 2
_SCORER: Final = "repotrial"
_FIRST_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
_VALUES: Final = {"success": "C", "failure": "I", "acceptance-error": "I", "invalid": "N"}
"""Correct, incorrect, no answer."""
_US_PER_SECOND: Final = 1_000_000
_GATES = Loss(
    what="gates and checks", why="in each score's metadata; the log has one value (C, I or N) for a sample"
)
_ERRORS = Loss(
    what="the difference of failure and acceptance error", why="both are I; the status is metadata"
)
_SEALS = Loss(what="seal and hash chain", why="the head's hash is metadata; the log is not signed")


def build_inspect(label: str, runs: Sequence[JudgedRun]) -> Exported:
    """A log of one agent's runs: a contract is a sample, a repetition an epoch.

    Raises:
        EvidenceError: a trace cannot be read.
    """
    told = [read_conversation(RunPaths(run.directory)) for run in runs]
    losses = (_GATES, _ERRORS, _SEALS, *_join_losses(told))
    samples = _build_samples(runs, told)
    header = _build_header(label, runs, samples, losses)
    start = {name: header[name] for name in ("version", "eval", "plan")}
    summaries = [_summarize(sample) for sample in samples]
    members: dict[str, Any] = {"_journal/start.json": start}
    for sample in samples:
        members[f"samples/{quote(sample['id'], safe=' ')}_epoch_{sample['epoch']}.json"] = sample
    members |= {
        "_journal/summaries/1.json": summaries,
        "summaries.json": summaries,
        "header.json": header,
    }
    return Exported(
        name=f"{quote(label, safe='@')}.eval", data=_write_archive(members), runs=len(runs), losses=losses
    )


def _join_losses(told: Sequence[ToldRun]) -> list[Loss]:
    counts: Counter[tuple[str, str]] = Counter()
    for conversation in told:
        for loss in conversation.losses:
            counts[loss.what, loss.why] += loss.count or 0
    return [Loss(what=what, count=count, why=why) for (what, why), count in sorted(counts.items())]


def _build_samples(runs: Sequence[JudgedRun], told: Sequence[ToldRun]) -> list[dict[str, Any]]:
    epochs: Counter[str] = Counter()
    samples = []
    for run, conversation in zip(runs, told, strict=True):
        name = run.entry.contract or run.directory.name
        epochs[name] += 1
        samples.append(_build_sample(run, conversation, name, epochs[name]))
    return samples


def _build_sample(run: JudgedRun, told: ToldRun, name: str, epoch: int) -> dict[str, Any]:
    asked = next((step.text for step in told.steps if step.speaker == "user"), "")
    answers = [step for step in told.steps if step.usage is not None]
    status = find_status(run.card)
    sample: dict[str, Any] = {
        "id": name,
        "epoch": epoch,
        "uuid": run.entry.run_id or run.directory.name,
        "input": asked,
        "target": "every gate passes",
        "messages": [message for step in told.steps for message in _build_messages(step)],
        "output": _build_output(answers),
        "scores": {_SCORER: _build_score(run, status)},
        "metadata": _build_metadata(run),
        "model_usage": _sum_usage(answers),
    }
    wall = run.card.cost.wall_us
    if not isinstance(wall, Unknown):
        sample["total_time"] = sample["working_time"] = wall / _US_PER_SECOND
    if run.entry.started_at_us is not None:
        sample["started_at"] = format_moment(run.entry.started_at_us)
    return sample


def _build_metadata(run: JudgedRun) -> dict[str, Any]:
    entry = run.entry
    head = run.card.identity.head_hash
    return {
        "directory": run.directory.name,
        "contract_version_id": entry.contract_version_id,
        "replicate": entry.replicate,
        "head_hash": None if isinstance(head, Unknown) else head,
        "seal": run.card.identity.seal,
        "trust": run.trust,
    }


def _build_score(run: JudgedRun, status: str) -> dict[str, Any]:
    return {
        "value": _VALUES[status],
        "explanation": run.entry.why,
        "metadata": {
            "status": status,
            "gates": list(run.card.gate_vector),
            "graded": run.entry.score,
            "tags": list(run.entry.tags),
            "checks": {check.check: check.verdict for check in run.card.checks},
        },
    }


def _build_messages(step: Step) -> list[dict[str, Any]]:
    identity = f"event-{step.seq}"
    if step.speaker != "agent":
        return [{"id": identity, "role": step.speaker, "content": step.text}]
    said: dict[str, Any] = {"id": identity, "role": "assistant", "content": step.text, "model": step.model}
    if step.reasoning is not None:
        said["content"] = [
            {"type": "reasoning", "reasoning": step.reasoning},
            {"type": "text", "text": step.text},
        ]
    if step.calls:
        said["tool_calls"] = [
            {"id": call.id, "function": call.name, "arguments": call.arguments, "type": "function"}
            for call in step.calls
        ]
    results = [
        {
            "id": f"event-{call.seq}-result",
            "role": "tool",
            "content": call.result or "",
            "tool_call_id": call.id,
            "function": call.name,
        }
        for call in step.calls
        if call.seq is not None
    ]
    return [said, *results]


def _build_output(answers: Sequence[Step]) -> dict[str, Any]:
    if not answers:
        return {"model": "none", "choices": []}
    last = answers[-1]
    message = {"role": "assistant", "content": last.text}
    return {
        "model": last.model or "none",
        "choices": [{"message": message, "stop_reason": "unknown"}],
        "completion": last.text,
    }


def _sum_usage(answers: Sequence[Step]) -> dict[str, Any]:
    sums: dict[str, Counter[str]] = {}
    for step in answers:
        if step.usage is not None and step.model is not None:
            sums.setdefault(step.model, Counter()).update(_list_usage(step.usage))
    return {model: dict(counts) for model, counts in sums.items()}


def _list_usage(usage: ResponseUsage) -> dict[str, int]:
    writes = [usage.cache_write_5m_tokens, usage.cache_write_1h_tokens]
    found = {
        "input_tokens": usage.input_uncached_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": _add(usage.request_input_tokens, usage.output_tokens),
        "input_tokens_cache_read": usage.cache_read_tokens,
        "input_tokens_cache_write": None if writes == [None, None] else sum(one or 0 for one in writes),
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: value for name, value in found.items() if value is not None}


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _build_header(
    label: str, runs: Sequence[JudgedRun], samples: Sequence[dict[str, Any]], losses: Sequence[Loss]
) -> dict[str, Any]:
    model = next((run.entry.model for run in runs if run.entry.model), None)
    moments = [run.entry.started_at_us for run in runs if run.entry.started_at_us is not None]
    created = format_moment(min(moments, default=0))
    names = sorted({sample["id"] for sample in samples})
    correct = sum(1 for sample in samples if sample["scores"][_SCORER]["value"] == "C")
    identity = digest_bytes(msgspec.json.encode([sample["uuid"] for sample in samples]))
    epochs = max((sample["epoch"] for sample in samples), default=1)
    return {
        "version": _LOG_VERSION,
        "status": "success",
        "eval": {
            "eval_id": identity.removeprefix("sha256:")[:22],
            "run_id": identity.removeprefix("sha256:")[22:44],
            "created": created,
            "task": "repotrial",
            "task_id": identity.removeprefix("sha256:")[:22],
            "task_version": 0,
            "dataset": {"name": "contracts", "samples": len(names), "sample_ids": names},
            "model": model or "none",
            "config": {"epochs": epochs},
            "packages": {"repotrial": __version__},
            "metadata": {"agent": label, "lost": list_words(losses)},
        },
        "plan": {"name": "repotrial", "steps": [], "config": {}},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [
                {
                    "name": _SCORER,
                    "scorer": _SCORER,
                    "params": {},
                    "metrics": {"accuracy": {"name": "accuracy", "value": correct / len(samples)}},
                }
            ],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
    }


def _summarize(sample: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "epoch", "uuid", "input", "target", "scores", "metadata", "model_usage")
    return {**{name: sample[name] for name in kept}, "completed": True}


def _write_archive(members: dict[str, Any]) -> bytes:
    """The same runs give the same bytes: no time of writing stands in the archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in members.items():
            entry = zipfile.ZipInfo(name, date_time=_FIRST_MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, msgspec.json.encode(document))
    return stream.getvalue()
