"""Errors of verdicts by the labels of people, and rates under stricter caps, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repotrial._core.absence import NotComputable
from repotrial.report._markdown import (
    build_bullets,
    build_table,
    show,
    show_amount,
    show_name,
    show_percent,
    show_reach,
)

if TYPE_CHECKING:
    from repotrial.analysis import LabeledShare, PilotFigures

_SHARES = {
    "rejected_correct": "false positives: of rejected runs, correct",
    "correct_rejected": "false positives: of correct runs, rejected",
    "accepted_incorrect": "false negatives: of accepted runs, incorrect",
    "incorrect_accepted": "false negatives: of incorrect runs, accepted",
}


def render_verdict_errors(found: PilotFigures, names: Mapping[str, str]) -> list[str]:
    """How often verdicts were wrong, with the definition beside the figures (X1)."""
    errors = found.verdict_errors
    if isinstance(errors, NotComputable):
        return ["## Errors of verdicts", "", *build_bullets([f"not computable: {errors.reason}"]), ""]
    rows = [(words, *_show(getattr(errors, name))) for name, words in _SHARES.items()]
    for mode in errors.modes:
        rows.append((f"{show_name(mode.mode)}: rejected, correct", *_show(mode.false_positives)))
        rows.append((f"{show_name(mode.mode)}: accepted, incorrect", *_show(mode.false_negatives)))
    rows += [
        (f"{names.get(arm, show_name(arm))}: correct by labels", *_show(share))
        for arm, share in errors.rates.items()
    ]
    counts = (
        f"asked about {errors.asked} runs: {errors.labeled} clear, {errors.unclear} unclear, "
        f"{errors.disputed} disputed labels"
    )
    cost = f"{errors.minutes} minutes; for each wrong verdict {show(errors.minutes_per_finding, show_amount)}"
    return [
        "## Errors of verdicts",
        "",
        *build_bullets([f"definition: {errors.definition}", counts, cost]),
        "",
        *build_table(("share", "%", "interval", "bounds", "labels"), rows, numbers=range(1, 5)),
        "",
    ]


def _show(found: LabeledShare) -> tuple[str, str, str, str]:
    bounds = show_reach(found.lowest, found.highest, show_percent)
    if isinstance(found.share, NotComputable):
        return show(found.share, show_percent), "", bounds, str(found.labels)
    share = found.share
    return (
        show(share.estimate, show_percent),
        show_reach(share.low, share.high, show_percent),
        bounds,
        str(found.labels),
    )


def render_stricter_caps(found: PilotFigures, names: Mapping[str, str]) -> list[str]:
    """Provisional rates under stricter caps (Q18), and what one more failure mode would cost (Q20)."""
    rows = [
        (
            names[one.arm],
            f"{one.share:g} of {one.cap}",
            show(one.rate, show_percent),
            one.label,
        )
        for one in found.counterfactual
    ]
    discovery = found.discovery
    modes = (
        f"{len(discovery.modes)} failure modes seen; chance that one more trial shows another: "
        f"{show(discovery.chance_of_another, show_percent)} %; cost of one more: "
        f"{show(discovery.usd_for_another, show_amount)} USD"
    )
    lines = ["## Under stricter caps", ""]
    note = "a cap is a policy choice; these rates are provisional and not comparable with the others"
    if rows:
        lines += [*build_bullets([note]), ""]
        lines += [*build_table(("arm", "cap", "rate %", ""), rows, numbers=(2,)), ""]
    return [*lines, *build_bullets([modes]), ""]
