"""What `contract mine` left in a directory: its figures, its page, and its statements for a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from repotrial.contract import LoadedContract
from repotrial.mining._page import count_funnel, list_ready, write_page
from repotrial.mining._review import ReviewOutcome, apply_batch, list_queue, parse_batch, render_batch
from repotrial.mining._rows import load_rows


class MineSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a mine holds now."""

    directory: str
    funnel: dict[str, int]
    """By step: how many candidates got past it."""
    ready: tuple[str, ...]
    """Contracts that are certified and whose statement a person has approved."""
    page: str


class Mine:
    """The directory of a mine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def summarize(self) -> MineSummary:
        """Write the page anew, and say what the mine holds.

        Raises:
            MINE_ROWS_INVALID: its rows cannot be read.
        """
        rows = list(load_rows(self._directory).values())
        ready = list_ready(self._directory, rows)
        return MineSummary(
            directory=str(self._directory),
            funnel=count_funnel(rows, len(ready)),
            ready=tuple(ready),
            page=str(write_page(self._directory)),
        )

    def render_batch(self, most: int) -> tuple[int, str]:
        """How many statements wait, and the text of the first of them, for an editor."""
        queue = list_queue(self._directory)
        return len(queue), render_batch(self._directory, queue[:most])

    def apply_batch(
        self, text: str, *, by: str, verify: Callable[[LoadedContract], None]
    ) -> list[ReviewOutcome]:
        """Take what came back from the editor; each yes is recorded with who gave it.

        Args:
            text: The batch.
            by: Who reviewed.
            verify: Raises if a contract is not usable; one that is not gets no approval.

        Raises:
            REVIEW_INVALID: the batch does not have the form that was written.
        """
        outcomes = apply_batch(self._directory, parse_batch(text), by=by, verify=verify)
        write_page(self._directory)
        return outcomes
