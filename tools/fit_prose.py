"""Fits the weights of plans in prose (P17) to the labeled sentences in `tests/data/prose`.

`python tools/fit_prose.py TRANSCRIPTS...` writes `src/repotrial/policy/_data/prose-weights.json`. Transcripts
of honest agents (folders of JSON, JSON lines or text) are further examples of what is no plan. `apart.tsv`
is never read here but by `--measure`, which changes nothing.

`--try` holds out a fifth of the sentences and of the transcript files in turns and prints what was found in
them; with `--by-set`, one file of sentences at a time.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, sparse

from repotrial.policy import check_text
from repotrial.policy._prose import iter_sentences
from repotrial.policy._prose_features import list_features, read_sentence, states_aim

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT / "tests" / "data" / "prose"
WEIGHTS = ROOT / "src" / "repotrial" / "policy" / "_data" / "prose-weights.json"
HELD_OUT = "apart"
"""The set that no word and no weight was changed for."""
SEED = 20260307
LEAST = 3
"""Sentences that a feature stands in."""
RIDGE = 0.7
HALF = ("w:", "o:")
"""Features that count half: words of one's own data say less about other texts than classes."""
TRANSCRIPT = 3.0
"""How much a sentence of a transcript counts beside one that was written for this."""
MARGIN = 0.15
"""Taken off every sum: an alarm ends an honest run, so a doubtful sentence is none."""
UNIT = 100
"""Weights are kept as integers of one hundredth."""
SHORTEST = 16
"""Characters of a sentence of a transcript."""
SMALL = 3
"""Weights below are left out."""
FOLDS = 5


@dataclass(frozen=True)
class Row:
    """A labeled text, as the features of those of its sentences that can be plans."""

    source: str
    label: str
    text: str
    parts: tuple[frozenset[str], ...]

    @property
    def features(self) -> frozenset[str]:
        """Of all its sentences."""
        return frozenset[str]().union(*self.parts)


def read_row(source: str, label: str, text: str) -> Row:
    """Features of a text."""
    read = (read_sentence(sentence) for _, sentence in iter_sentences(text))
    return Row(
        source, label, text, tuple(frozenset(list_features(each)) for each in read if states_aim(each))
    )


def load_sentences(*, held_out: bool = False) -> list[Row]:
    """All labeled sentences but those held out, or only those."""
    paths = [path for path in sorted(SENTENCES.glob("*.tsv")) if (path.stem == HELD_OUT) is held_out]
    lines = (
        (path, line.split("\t")) for path in paths for line in path.read_text(encoding="utf-8").splitlines()
    )
    return [read_row(path.stem, label, text) for path, (label, text) in lines]


def iter_texts(path: Path) -> Iterator[str]:
    """Every text in a file of JSON, JSON lines or lines."""
    whole = path.read_text(encoding="utf-8", errors="replace")
    try:
        yield from _iter_strings(json.loads(whole))
    except ValueError:
        for line in whole.splitlines():
            try:
                yield from _iter_strings(json.loads(line))
            except ValueError:
                yield line


def _iter_strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def find_files(folders: Iterable[Path]) -> list[Path]:
    """Transcripts in folders."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def load_transcripts(files: list[Path]) -> list[Row]:
    """Sentences of transcripts, each once, that could be plans by their form."""
    rows: dict[str, Row] = {}
    for path in files:
        for text in iter_texts(path):
            for _, sentence in iter_sentences(text):
                if len(sentence) >= SHORTEST and sentence not in rows:
                    rows[sentence] = read_row(str(path), "none", sentence)
    return [row for row in rows.values() if row.parts]


@dataclass(frozen=True)
class Model:
    """Weights of features."""

    bias: float
    weights: dict[str, float]

    def add_up(self, features: frozenset[str]) -> float:
        """The sum that is above 0 for a plan."""
        return self.bias + sum(self.weights.get(each, 0.0) for each in features)

    def find(self, row: Row) -> float:
        """The greatest sum of a text's sentences."""
        return max((self.add_up(each) for each in row.parts), default=-np.inf)


def fit(rows: list[Row], wanted: list[bool], *, only: tuple[str, ...] = ()) -> Model:
    """Logistic regression with a ridge."""
    counts = Counter(each for row in rows for each in row.features if not only or each.startswith(only))
    names = sorted(name for name, count in counts.items() if count >= LEAST)
    place = {name: at for at, name in enumerate(names)}
    scale = np.array([0.5 if name.startswith(HALF) else 1.0 for name in names])
    cells = [(at, place[each]) for at, row in enumerate(rows) for each in row.features if each in place]
    across, down = (np.array(each) for each in zip(*cells, strict=True))
    table = sparse.csr_matrix((scale[down], (across, down)), shape=(len(rows), len(names)))
    signs = np.where(wanted, 1.0, -1.0)
    counts_as = np.array([TRANSCRIPT if "/" in row.source else 1.0 for row in rows])

    def lose(values: Any) -> tuple[float, Any]:
        weights, bias = values[:-1], values[-1]
        sums = signs * (table @ weights + bias)
        pull = -signs * counts_as / (1.0 + np.exp(sums))
        loss = counts_as @ np.logaddexp(0.0, -sums) + 0.5 * RIDGE * (weights @ weights)
        return float(loss), np.append(table.T @ pull + RIDGE * weights, pull.sum())

    found = optimize.minimize(
        lose, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", options={"maxiter": 400}
    ).x
    return Model(float(found[-1]) - MARGIN, dict(zip(names, (found[:-1] * scale).tolist(), strict=True)))


def round_weights(weights: dict[str, float]) -> dict[str, int]:
    """As they are kept."""
    kept = {name: round(value * UNIT) for name, value in sorted(weights.items())}
    return {name: value for name, value in kept.items() if abs(value) >= SMALL}


def write(sentences: list[Row], transcripts: list[Row]) -> None:
    """Fit to everything and store the weights."""
    rows = [*sentences, *transcripts]
    model = fit(rows, [row.label != "none" for row in rows])
    plans = [row for row in sentences if row.label != "none" and row.features]
    rules = {
        rule: round_weights(fit(plans, [row.label == rule for row in plans], only=("c:", "t:")).weights)
        for rule in sorted({row.label for row in plans})
    }
    value: dict[str, Any] = {
        "schema": "repotrial/prose-weights@1",
        "fitted": {
            "mentions": len(sentences) - len(plans),
            "plans": len(plans),
            "transcripts": len(transcripts),
        },
        "bias": round(model.bias * UNIT),
        "features": round_weights(model.weights),
        "rules": rules,
    }
    WEIGHTS.write_text(json.dumps(value, indent=0) + "\n", encoding="utf-8")
    print(f"{len(value['features'])} features, {WEIGHTS.stat().st_size} bytes")


def try_out(sentences: list[Row], transcripts: list[Row], *, by_set: bool) -> None:
    """What is found in sentences and transcripts that the weights were not fitted to."""
    order = list(range(len(sentences)))
    random.Random(SEED).shuffle(order)
    sets = sorted({row.source for row in sentences})
    folds = len(sets) if by_set else FOLDS
    fold = {at: sets.index(sentences[at].source) if by_set else turn % folds for turn, at in enumerate(order)}
    files = sorted({row.source for row in transcripts})
    sums: list[tuple[float, Row]] = []
    alarms: list[tuple[float, Row]] = []
    for turn in range(folds):
        rows = [row for at, row in enumerate(sentences) if fold[at] != turn]
        rows += [row for row in transcripts if files.index(row.source) % folds != turn]
        model = fit(rows, [row.label != "none" for row in rows])
        sums += [(model.find(row), row) for at, row in enumerate(sentences) if fold[at] == turn]
        alarms += [(model.find(row), row) for row in transcripts if files.index(row.source) % folds == turn]
    for name in ["all", *sets]:
        report(name, [(total > 0, row) for total, row in sums if name in {"all", row.source}])
    found = [row for total, row in alarms if total > 0]
    print(
        f"transcripts: {len(found)} sentences in {len({row.source for row in found})} of {len(files)} files"
    )
    for row in found:
        print("  ", row.source.rpartition("/")[2][-30:], row.text.strip()[:150])


def report(name: str, found: list[tuple[bool, Row]]) -> None:
    """Plans found and mentions that raise an alarm."""
    plans = [was_found for was_found, row in found if row.label != "none"]
    mentions = [was_found for was_found, row in found if row.label == "none"]
    print(f"{name}: {sum(plans)} of {len(plans)} plans, {sum(mentions)} of {len(mentions)} mentions")


def measure(files: list[Path]) -> None:
    """What the stored weights find, through the public check: in each set, and in transcripts."""
    rows = [*load_sentences(), *load_sentences(held_out=True)]
    for name in sorted({row.source for row in rows}):
        report(name, [(has_alarm(row.text), row) for row in rows if row.source == name])
    alarms = {path: [text for text in iter_texts(path) if has_alarm(text)] for path in files}
    print(f"transcripts: {sum(map(bool, alarms.values()))} of {len(files)} files raise an alarm")


def has_alarm(text: str) -> bool:
    """Whether a message raises a critical alarm for what it says in prose."""
    found = check_text(text, where="message")
    return any(each.format == "natural-language" and each.severity == "critical" for each in found)


def main(arguments: list[str]) -> int:
    """Fit, try or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transcripts", nargs="*", type=Path, help="folders of honest transcripts")
    parser.add_argument("--try", dest="is_try", action="store_true", help="hold out in turns, write nothing")
    parser.add_argument("--by-set", action="store_true", help="with --try: one set of sentences at a time")
    parser.add_argument("--measure", action="store_true", help="what the stored weights find, write nothing")
    options = parser.parse_args(arguments)
    files = find_files(options.transcripts)
    if options.measure:
        measure(files)
    elif options.is_try:
        try_out(load_sentences(), load_transcripts(files), by_set=options.by_set)
    else:
        write(load_sentences(), load_transcripts(files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
