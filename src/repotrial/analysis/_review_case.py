"""A run as a reviewer sees it: task, change and flags, with names of agents, models and prices taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.analysis._plan_document import Pilot
from repotrial.analysis._review_queue import ReviewedRun, ReviewReason
from repotrial.score import AgentIdentity, JudgedRun, find_status
from repotrial.trace import BlobStore, Briefing, RunPaths, iter_events

_MOST_CHARACTERS: Final = 400_000
_SHORTEST_NAME: Final = 3
"""Shorter names stand in every text."""
_KNOWN_NAMES: Final = (
    "aider", "anthropic", "chatgpt", "claude", "cline", "codex", "copilot", "cursor", "deepseek", "devin",
    "gemini", "goose", "gpt", "grok", "haiku", "llama", "mini-swe-agent", "mistral", "openai", "opencode",
    "openhands", "opus", "qwen", "qwen-code", "sonnet", "swe-agent", "windsurf",
)  # fmt: skip
"""What agents and models sign their work with, whether or not they are compared here."""
_PRICE: Final = re.compile(
    r"(?:US\$|\$|€|USD ?|EUR ?)[0-9]+[.,][0-9]+|[0-9]+[.,][0-9]+ ?(?:USD|EUR|dollars?|cents?|€)\b"
)
_NAME_MARK: Final = "[name]"
_PRICE_MARK: Final = "[price]"
_GENERIC: Final = frozenset({"agent", "cli", "code", "mini", "model", "patch", "provider", "script", "swe"})
"""Parts of names that are words of their own."""


class Blinder:
    """Takes names and prices out of texts."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: of the arms, agents and models of this pilot; well-known ones are taken out anyway."""
        words = {word.lower() for name in (*names, *_KNOWN_NAMES) for word in _split(name)}
        ordered = sorted(words, key=lambda word: (-len(word), word))
        inside = "|".join(re.escape(word) for word in ordered)
        # A digit or a hyphen may follow: `gpt-5.4`, `claude2`; a letter makes another word of it.
        self._names = re.compile(
            rf"(?<![A-Za-z0-9])(?:{inside})(?:[-_. ]?v?[0-9][A-Za-z0-9.]*)?(?![A-Za-z])", re.IGNORECASE
        )

    def hide(self, text: str) -> str:
        """The text with a mark in place of each name and price."""
        return _PRICE.sub(_PRICE_MARK, self._names.sub(_NAME_MARK, text))


def _split(name: str) -> Iterator[str]:
    """A name, and the parts of it that are no words of their own."""
    for part in (name, *re.split(r"[@:/,]", name)):
        stem = part.strip()
        if len(stem) >= _SHORTEST_NAME and stem.lower() not in _GENERIC:
            yield stem


class ReviewCase(msgspec.Struct, frozen=True, kw_only=True):
    """All that a reviewer is shown of one run."""

    case: str
    """Its blind name."""
    task: str
    """The contract's id."""
    reasons: tuple[ReviewReason, ...]
    """Why a person is asked; for a random sample nothing else is said."""
    statement: str
    """What was asked for, the same for every arm."""
    change: str
    """The change as a patch, blinded."""
    is_cut: bool
    """Whether there is more of the change than is shown."""
    verdict: tuple[str, ...]
    """Status, gates and checks, if they were asked for: a label is worth more without them."""

    @classmethod
    def build(cls, pilot: Pilot, queued: ReviewedRun, run: JudgedRun, *, with_verdict: bool) -> ReviewCase:
        """From the record of the run alone."""
        blinder = Blinder(_iter_names(pilot, run))
        change = run.evidence.change
        text = change.decode("utf-8", "replace") if isinstance(change, bytes) else ""
        return cls(
            case=queued.case,
            task=queued.task,
            reasons=tuple(
                ReviewReason(kind=reason.kind, message=blinder.hide(reason.message))
                for reason in queued.reasons
            ),
            statement=_read_statement(run),
            change=blinder.hide(text[:_MOST_CHARACTERS]),
            is_cut=len(text) > _MOST_CHARACTERS,
            verdict=tuple(blinder.hide(line) for line in _iter_verdict(run)) if with_verdict else (),
        )


def _iter_names(pilot: Pilot, run: JudgedRun) -> Iterator[str]:
    for arm in pilot.arms:
        kind, _, rest = arm.agent.partition(":")
        # The file of a script or a patch is no name that a change would carry.
        yield from (arm.name, arm.model or "", kind if rest else arm.agent)
        yield (arm.upstream or "").partition(":")[2] if "/" not in (arm.upstream or "") else ""
    agent = run.card.identity.agent
    if isinstance(agent, AgentIdentity):
        yield agent.name
        yield agent.model if isinstance(agent.model, str) else ""


def _read_statement(run: JudgedRun) -> str:
    paths = RunPaths(run.directory)
    try:
        for event in iter_events(paths.trace, allow_torn_tail=True):
            if isinstance(event.payload, Briefing):
                return event.payload.issue.load(BlobStore(paths.blobs)).decode("utf-8", "replace")
    except RepoTrialError as error:
        return f"(not readable: {error.message})"
    return "(the record has none)"


def _iter_verdict(run: JudgedRun) -> Iterator[str]:
    yield f"status: {find_status(run.card)}"
    for gate in run.card.gates:
        yield f"{gate.gate} {gate.name}: {gate.outcome}"
    for check in run.card.checks:
        words = f" ({', '.join(check.failing_tests)})" if check.failing_tests else ""
        yield f"check {check.check}: {check.verdict}{words}"
