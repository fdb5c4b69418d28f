"""One run as a trajectory in the Agent Trajectory Interchange Format, version 1.8."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.clock import format_moment
from repotrial.interop._conversation import Call, Step, read_conversation
from repotrial.interop._model import Exported, Loss, list_words
from repotrial.score import AgentIdentity, JudgedRun, find_status
from repotrial.trace import ResponseUsage, RunPaths

_VERSION: Final = "ATIF-v1.8"
_GATES = Loss(what="gates, checks and the score card", why="in `extra.repotrial`; the format has no verdict")
_CHANGE = Loss(what="the change", why="its digest stands in `extra.repotrial`")


def build_atif(run: JudgedRun) -> Exported:
    """A trajectory; one file holds one run.

    Raises:
        EvidenceError: the trace cannot be read.
    """
    told = read_conversation(RunPaths(run.directory))
    losses = (_GATES, _CHANGE, *told.losses)
    steps = [_build_step(number, step) for number, step in enumerate(told.steps, start=1)]
    identity = run.card.identity
    agent = identity.agent
    document = {
        "schema_version": _VERSION,
        "session_id": run.entry.run_id or run.directory.name,
        "agent": _build_agent(agent),
        "steps": steps or [{"step_id": 1, "source": "system", "message": ""}],
        "notes": "Exported by RepoTrial; `extra.repotrial.lost` lists what this format has no place for.",
        "final_metrics": _build_totals(run, told.steps),
        "extra": {
            "repotrial": {
                "contract": run.entry.contract,
                "contract_version_id": run.entry.contract_version_id,
                "status": find_status(run.card),
                "gates": list(run.card.gate_vector),
                "change_digest": _plain(identity.change_digest),
                "head_hash": _plain(identity.head_hash),
                "seal": identity.seal,
                "lost": list_words(losses),
            }
        },
    }
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    return Exported(name=f"{run.directory.resolve().name}.json", data=data, runs=1, losses=losses)


def _build_agent(agent: AgentIdentity | Unknown) -> dict[str, Any]:
    if isinstance(agent, Unknown):
        return {"name": "unknown", "version": "unknown", "extra": {"reason": agent.reason}}
    version = agent.version if isinstance(agent.version, str) else "unknown"
    found = {"name": agent.name, "version": version}
    return found if isinstance(agent.model, Unknown) else {**found, "model_name": agent.model}


def _build_step(number: int, step: Step) -> dict[str, Any]:
    built: dict[str, Any] = {
        "step_id": number,
        "timestamp": format_moment(step.at_us),
        "source": step.speaker,
        "message": step.text,
    }
    if step.reasoning is not None:
        built["reasoning_content"] = step.reasoning
    if step.model is not None:
        built["model_name"] = step.model
    if step.calls:
        built["tool_calls"] = [
            {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
            for call in step.calls
        ]
    results = [_build_result(call) for call in step.calls if call.seq is not None]
    if results:
        built["observation"] = {"results": results}
    if step.usage is not None:
        built["metrics"] = _build_metrics(step.usage, step.cost_usd)
        built["llm_call_count"] = 1
    elif step.speaker == "agent":
        built["llm_call_count"] = 0
    extra: dict[str, Any] = {
        "event": step.seq,
        "original_digest": step.digest,
        "conversation": step.conversation,
    }
    if step.absent is not None:
        extra["absent"] = step.absent
    return {**built, "extra": extra}


def _build_result(call: Call) -> dict[str, Any]:
    return {"source_call_id": call.id, "content": call.result, "extra": {"event": call.seq}}


def _build_metrics(usage: ResponseUsage, cost_usd: str | None) -> dict[str, Any]:
    found = {
        "prompt_tokens": usage.request_input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "cost_usd": None if cost_usd is None else float(cost_usd),
    }
    return {name: value for name, value in found.items() if value is not None}


def _build_totals(run: JudgedRun, steps: tuple[Step, ...]) -> dict[str, Any]:
    usages = [step.usage for step in steps if step.usage is not None]
    cost = run.card.cost.cost_usd
    found = {
        "total_prompt_tokens": sum_known([usage.request_input_tokens for usage in usages]),
        "total_completion_tokens": sum_known([usage.output_tokens for usage in usages]),
        "total_cached_tokens": sum_known([usage.cache_read_tokens for usage in usages]),
        "total_cost_usd": None if isinstance(cost, Unknown) else float(cost),
        "total_steps": len(steps) or 1,
    }
    return {name: value for name, value in found.items() if value is not None}


def sum_known(values: list[int | None]) -> int | None:
    """None if there is none, or one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _plain(value: str | Unknown) -> str | None:
    return None if isinstance(value, Unknown) else value
