"""A summary in words: lines that a terminal and a page both show."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial._core.absence import NotComputable
from repotrial._core.display import shorten_digests
from repotrial.analysis._summary import PairedSummary, RunsSummary
from repotrial.score import is_notional


def describe_notional(summary: RunsSummary) -> str | None:
    """Whose costs were not paid to a provider; None if all were."""
    names = [shorten_digests(found.agent) for found in summary.agents if is_notional(found.upstream)]
    if not names:
        return None
    return (
        f"in the runs of {', '.join(names)} a script or a recording answered for the model: "
        "priced as if its provider had, and nobody was paid"
    )


def describe_difference(paired: PairedSummary) -> Iterator[str]:
    """A comparison of two agents in lines: a title, the difference, its tests, what was left out."""
    found = paired.comparison
    one, other = shorten_digests(paired.one), shorten_digests(paired.other)
    contracts = "1 contract" if found.n_pairs == 1 else f"{found.n_pairs} contracts"
    yield f"{one} less {other}, over {contracts} that both have"
    difference = found.difference
    if isinstance(difference, NotComputable):
        yield f"not computable: {difference.reason}"
    else:
        interval = difference.interval
        reach = ""
        if not isinstance(interval, NotComputable):
            reach = f", 95 % interval {interval.low:+.1%} to {interval.high:+.1%} ({interval.method.value})"
        yield f"{difference.value:+.1%}{reach}"
    for test in (found.mcnemar, found.sign_flip):
        if not isinstance(test, NotComputable):
            yield f"p = {test.p_value:.4f} ({test.method.value})"
    for name, unmatched in ((one, found.unmatched_a), (other, found.unmatched_b)):
        if unmatched:
            yield f"left out, only {name} has them: {', '.join(unmatched)}"
