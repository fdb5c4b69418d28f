"""Runs in the formats of other tools; each file lists what its format has no place for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from repotrial.interop._atif import build_atif
from repotrial.interop._in_toto import build_in_toto
from repotrial.interop._inspect import build_inspect
from repotrial.interop._jsonl import build_jsonl
from repotrial.interop._junit import build_junit
from repotrial.interop._model import Exported, ExportFormat, Loss, group_by_agent, list_words
from repotrial.interop._swebench_report import build_swebench_report
from repotrial.score import JudgedRun, label_agents
from repotrial.signing import SigningKey

_SWEBENCH: Final = (
    Loss(what="the conversation and all events", why="the report lists instances alone"),
    Loss(what="repeated runs of an instance", why="it is resolved if every run that was judged resolved it"),
    Loss(what="gates, score, tags and costs", why="the report has one word for an instance"),
)


def build_exports(form: ExportFormat, runs: Sequence[JudgedRun], key: SigningKey | None) -> list[Exported]:
    """The files that hold these runs: one, or one for each run (`atif`) or agent (`inspect`, `swebench`).

    Args:
        form: The format.
        runs: At least one.
        key: Signs where the format wants a signature (`in-toto`).

    Raises:
        EvidenceError: a trace cannot be read.
    """
    match form:
        case "atif":
            return [build_atif(run) for run in runs]
        case "in-toto":
            assert key is not None, "the command found the machine's key"
            return [build_in_toto(runs, key)]
        case "inspect":
            return [build_inspect(label, group) for label, group in _group(runs)]
        case "jsonl":
            return [build_jsonl(runs)]
        case "junit":
            return [build_junit(runs)]
        case "swebench":
            return [_build_swebench(label, group) for label, group in _group(runs)]


def _group(runs: Sequence[JudgedRun]) -> list[tuple[str, list[JudgedRun]]]:
    return list(group_by_agent(runs, label_agents([run.entry for run in runs])).items())


def _build_swebench(label: str, runs: Sequence[JudgedRun]) -> Exported:
    report = build_swebench_report([run.card for run in runs])
    document = {**msgspec.to_builtins(report), "repotrial_lost": list_words(_SWEBENCH)}
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    name = f"{quote(label, safe='@')}.repotrial.json"
    return Exported(name=name, data=data, runs=len(runs), losses=_SWEBENCH)
