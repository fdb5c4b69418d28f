"""What an exchange consumed: as the provider says, and where it does not, as the answer itself tells (P21).

An answer that broke off is charged like any other, for what came of it: its input, and the output that was
seen. A provider's count is final only at the end of an answer; before it, the larger of both holds.
"""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial.cost import TokenUsage, estimate_usage
from repotrial.gateway import ExchangeEnd
from repotrial.wire import WireAnswer

_MOST_TOKENS: Final = 10**10
"""More than any exchange can take: such a report is not believed."""
_COUNTS: Final = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "output",
    "reasoning",
    "request_input",
)


class ExchangeMeter:
    """For one exchange.

    Args:
        request_bytes: Of the request's body.
        is_streamed: Whether its answer comes in pieces.
    """

    def __init__(self, *, request_bytes: int, is_streamed: bool) -> None:
        self._request_bytes = request_bytes
        self._is_streamed = is_streamed

    def estimate(self, usage: TokenUsage, sent_bytes: int) -> TokenUsage:
        """While an answer comes."""
        return self._fill(usage, sent_bytes)

    def read(self, end: ExchangeEnd) -> TokenUsage:
        """When it has ended; unknown where nothing of it tells."""
        answer = end.answer
        if answer is None:
            return TokenUsage()
        if answer.usage is None and not (answer.is_complete or self._is_streamed):
            return TokenUsage()  # the model had said all of it by then, and we saw a part
        said_bytes = _count_said(answer)
        if not said_bytes and not answer.is_complete:
            said_bytes = len(end.body)  # nothing of it could be read
        filled = self._fill(answer.usage, said_bytes)
        if answer.is_complete:
            return filled
        seen = self._fill(None, said_bytes).output
        if seen is None or (filled.output is not None and filled.output >= seen):
            return filled
        return msgspec.structs.replace(filled, output=seen, basis="estimated")

    def _fill(self, usage: TokenUsage | None, response_bytes: int) -> TokenUsage:
        return estimate_usage(
            usage if usage is None or _is_plausible(usage) else None,
            request_bytes=self._request_bytes,
            response_bytes=response_bytes,
        )


def _count_said(answer: WireAnswer) -> int:
    """Without the form around it, which is many times as long in a stream."""
    texts = sum(len(text.encode("utf-8", "surrogatepass")) for text in (*answer.texts, *answer.reasoning))
    return texts + sum(len(call.name) + len(call.arguments) for call in answer.calls)


def _is_plausible(usage: TokenUsage) -> bool:
    counts = (getattr(usage, name) for name in _COUNTS)
    return all(count is None or 0 <= count <= _MOST_TOKENS for count in counts)
