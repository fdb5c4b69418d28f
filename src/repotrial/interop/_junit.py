"""Runs as JUnit XML: a suite for each run, a case for each gate and for each check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from repotrial._core.absence import Unknown
from repotrial._core.clock import format_moment
from repotrial.interop._model import Exported, Loss, list_words
from repotrial.score import JudgedRun, Verdict, find_status

_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no place for."""
_US_PER_SECOND: Final = 1_000_000
_LOSSES: Final = (
    Loss(what="the conversation and all events", why="the format knows test cases alone"),
    Loss(what="the change", why="its digest is a property of the suite"),
    Loss(
        what="the score, tags and costs", why="the status is a property; the format has pass, fail and error"
    ),
    Loss(what="times of single checks", why="a suite has the agent's time; cases have none"),
)


def build_junit(runs: Sequence[JudgedRun]) -> Exported:
    """One document about all runs."""
    root = Element("testsuites", name="repotrial")
    for run in runs:
        _add_suite(root, run)
    indent(root)
    data = b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="utf-8") + b"\n"
    return Exported(name="repotrial.xml", data=data, runs=len(runs), losses=_LOSSES)


def _add_suite(root: Element, run: JudgedRun) -> None:
    entry, card = run.entry, run.card
    outcomes = [gate.outcome for gate in card.gates] + [check.verdict for check in card.checks]
    wall = card.cost.wall_us
    suite = SubElement(
        root,
        "testsuite",
        name=_clean(f"{entry.contract or 'unknown'} {entry.agent or 'unknown'} {run.directory.name}"),
        tests=str(len(outcomes)),
        failures=str(outcomes.count("failed")),
        errors=str(sum(1 for one in outcomes if one not in {"passed", "failed"})),
        skipped="0",
        time="0" if isinstance(wall, Unknown) else f"{wall / _US_PER_SECOND:.3f}",
    )
    if entry.started_at_us is not None:
        suite.set("timestamp", format_moment(entry.started_at_us).removesuffix("Z"))
    properties = SubElement(suite, "properties")
    for name, value in _list_properties(run):
        SubElement(properties, "property", name=name, value=_clean(value))
    place = f"{entry.contract or 'unknown'}.{entry.agent or 'unknown'}"
    for gate in card.gates:
        _add_case(suite, f"{place}.gates", gate.gate, gate.outcome, "; ".join(gate.why))
    for check in card.checks:
        _add_case(suite, f"{place}.checks", check.check, check.verdict, f"gate {check.gate}")


def _list_properties(run: JudgedRun) -> list[tuple[str, str]]:
    identity = run.card.identity
    named = {
        "status": find_status(run.card),
        "run_id": identity.run_id,
        "contract_version_id": identity.contract_version_id,
        "change_digest": identity.change_digest,
        "head_hash": identity.head_hash,
        "trust": run.trust,
    }
    found = [(f"repotrial.{name}", value) for name, value in named.items() if isinstance(value, str)]
    return found + [("repotrial.lost", words) for words in list_words(_LOSSES)]


def _add_case(suite: Element, classname: str, name: str, outcome: Verdict, why: str) -> None:
    case = SubElement(suite, "testcase", classname=_clean(classname), name=_clean(name), time="0")
    if outcome != "passed":
        word = "failure" if outcome == "failed" else "error"
        SubElement(case, word, message=_clean(why), type=outcome)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
