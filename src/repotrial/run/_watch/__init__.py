"""Watching an agent at work: what it says, what it does, what it costs, and what is done about it."""

from __future__ import annotations

from repotrial.run._watch._bodies import build_body_reader
from repotrial.run._watch._dialogue import Dialogue
from repotrial.run._watch._ending import Ending, EndingSwitch
from repotrial.run._watch._hands import ROOM, SandboxHands
from repotrial.run._watch._inbox import Answer, Inbox, NobodyAsksError, put_answer
from repotrial.run._watch._inspection import Inspector
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._overseer import Overseer, Watchpost
from repotrial.run._watch._stage_desk import STAGE_COMMAND, StageDesk
from repotrial.run._watch._stages import StageKeeper
from repotrial.run._watch._supervisor import RunSupervisor

__all__ = [
    "ROOM",
    "STAGE_COMMAND",
    "Answer",
    "Dialogue",
    "Ending",
    "EndingSwitch",
    "Inbox",
    "Inspector",
    "MutationLog",
    "NobodyAsksError",
    "Overseer",
    "RunSupervisor",
    "SandboxHands",
    "StageDesk",
    "StageKeeper",
    "Watchpost",
    "build_body_reader",
    "put_answer",
]
