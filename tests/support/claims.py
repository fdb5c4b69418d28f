"""Numbers of a pilot's page, and the same computed anew from the artefacts that they link."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from repotrial import api, open_pilot
from repotrial._core.digest import digest_bytes, digest_file

_CELL = re.compile(r'<td id="([^"]+)-\d+-\d+"[^>]*><a href="#s-([^"]+)">([-+0-9.e,]+)</a>')
_SOURCE = re.compile(
    r'<tr id="s-([^"]+)"><td class="wide"><code>(.*?)</code>.*?<code>((?:sha256:)?\w+)</code>', re.DOTALL
)
_FIGURE = re.compile(r'<h3 id="([^"]+)-title">(.*?)</h3>')


class Claim(NamedTuple):
    """One number of a table."""

    table: str
    source: str
    text: str


def find_claims(page: str) -> list[Claim]:
    """Every number that a table of the page has."""
    found = [(table.removeprefix("p1-"), source, text) for table, source, text in _CELL.findall(page)]
    return [
        Claim("beside" if table.startswith("beside") else table, source, text)
        for table, source, text in found
    ]


def find_titles(page: str) -> dict[str, str]:
    """What figures say."""
    return {name: unescape(title) for name, title in _FIGURE.findall(page)}


def digest_sources(page: str, pilot: Path) -> dict[str, tuple[str, str]]:
    """For each source its digest on the page, and computed anew from a copy of the pilot."""
    rows = open_pilot(pilot).rows()
    by_arm = {
        arm: digest_bytes("\n".join(sorted(_iter_seals(rows, arm, pilot))).encode())
        for arm in {row["arm"] for row in rows}
    }
    found = {}
    for name, file, digest in _SOURCE.findall(page):
        found[name] = (digest, _digest(unescape(file), pilot, by_arm))
    return found


def _iter_seals(rows: list[dict[str, Any]], arm: str, pilot: Path) -> Iterator[str]:
    for row in rows:
        if row["arm"] == arm and row.get("directory"):
            name = Path(row["directory"]).name
            yield f"{digest_file(pilot / 'runs' / name / 'seal.json')}  runs/{name}"


def _digest(file: str, pilot: Path, by_arm: Mapping[str, str]) -> str:
    if file.endswith("trace.jsonl"):
        trace = pilot / "runs" / Path(file).parent.name / "trace.jsonl"
        last = trace.read_bytes().splitlines()[-1]
        return str(json.loads(last)["hash"])
    if single := re.fullmatch(r"runs of (\S+) \(\d+ runs below runs/\)", file):
        return by_arm[single[1]]
    if ", " not in file and (pilot / file).is_file():
        return digest_file(pilot / file)
    digests = []
    for part in file.split(", "):
        is_arm = part.startswith("runs of ")
        digests.append(by_arm[part.removeprefix("runs of ")] if is_arm else _find_document(part, pilot))
    return digest_bytes("\n".join(digests).encode())


def _find_document(name: str, pilot: Path) -> str:
    if name.startswith("plan: "):
        return digest_file(pilot / "plan" / name.removeprefix("plan: "))
    if name.startswith("registration "):
        return digest_file(pilot / "registrations" / f"{name.removeprefix('registration ')}.json")
    return digest_file(pilot / {"pilot": "pilot.toml", "journal": "journal.jsonl"}[name])


def list_known_numbers(pilot: Path) -> dict[str, set[str]]:
    """By table: what its numbers may be. Counts and rates by hand, the rest by an analysis of this copy."""
    rows = open_pilot(pilot).rows()
    found = msgspec.to_builtins(api.analyze_conducted(pilot))
    own = found["pilot"]
    parts = {
        "contrast": found["contrasts"],
        "stratum": own["stratum_contrasts"],
        "phase": own["arms"],
        "success-cost": found["arms"],
        "amount": found["arms"],
        "mode": [own["discovery"], len(own["discovery"]["modes"])],
        "error": own["verdict_errors"],
        "tipping": own["contrasts"],
        "rubric": own["arms"],
        "repeat": found["arms"],
        "cap": own["counterfactual"],
    }
    known = {name: {_show(number) for number in _iter_numbers(part)} for name, part in parts.items()}
    known["amount"] |= {f"{number:.4g}" for number in _iter_numbers(found["arms"])}
    intervals = [[arm["rate"], arm["scorable_rate"], arm["icc"]] for arm in found["arms"]]
    counted = _count_by_hand(rows)
    return {
        **known,
        **counted,
        "arm": counted["arm"] | {_show(number) for number in _iter_numbers(intervals)},
        "powers": _read_powers(pilot),
        "beside": {_show(_count_steps(pilot / "runs" / Path(row["directory"]).name)) for row in rows},
    }


def _count_by_hand(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    arms, bounds = set(), set()
    for arm in {row["arm"] for row in rows}:
        own = [row for row in rows if row["arm"] == arm]
        counts = Counter(row["status"] for row in own)
        rate = counts["success"] / len(own)
        every = (len({row["task"] for row in own}), len(own), *counts.values(), 0, rate)
        arms |= {_show(number) for number in every}
        best = (counts["success"] + counts["indeterminate"]) / len(own)
        bounds |= {_show(number) for number in (0, counts["indeterminate"], rate, best)}
    statuses = Counter(row["status"] for row in rows)
    tasks = len({row["task"] for row in rows})
    flow = {tasks, len(rows), sum(row["attempts"] for row in rows), len(rows) - statuses["indeterminate"], 0}
    flow |= set(statuses.values())
    trials = {row[name] for row in rows for name in ("repeat", "cost_usd") if row.get(name) is not None}
    trials |= {round(row["wall_seconds"], 1) for row in rows if row.get("wall_seconds") is not None}
    trust = Counter((row["arm"], row.get("trust"), row.get("assurance")) for row in rows)
    return {
        "arm": arms,
        "bounds": bounds,
        "flows": {_show(number) for number in flow},
        "trial": {_show(number) for number in trials},
        "trust": {_show(number) for number in trust.values()},
    }


def _count_steps(run: Path) -> int:
    """Programs that started while a script acted."""
    events = map(json.loads, (run / "trace.jsonl").read_bytes().splitlines())
    return sum(event["type"] == "program-start" and event["payload"]["phase"] == "act" for event in events)


def _read_powers(pilot: Path) -> set[str]:
    power = json.loads((pilot / "plan" / "power-analysis.json").read_bytes())
    return {_show(float(value)) for row in power["rows"] for value in row.values()} | {
        _show(row["repeats"]) for row in power["rows"]
    }


def _iter_numbers(tree: Any) -> Iterator[float]:
    match tree:
        case dict():
            for value in tree.values():
                yield from _iter_numbers(value)
        case list() | tuple():
            for value in tree:
                yield from _iter_numbers(value)
        case bool():
            pass
        case int() | float():
            yield tree
        case _:
            pass


def _show(value: float) -> str:
    """As a page shows a number."""
    return str(value) if isinstance(value, int) else f"{round(value, 4):.4g}"
