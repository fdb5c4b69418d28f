"""Drives a frozen plan through the fleet: stages, envelopes, a journal, a queue for reviewers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.conduct._asked import iter_progress
    from repotrial.conduct._bundle import Bundle, write_bundle
    from repotrial.conduct._drive import ConductSettings, PilotNotice
    from repotrial.conduct._freeze import FreezeResult, stamp_registration
    from repotrial.conduct._frozen import FrozenDocuments, load_documents
    from repotrial.conduct._hand_over import load_conducted
    from repotrial.conduct._peek import admit_places, verify_no_peek
    from repotrial.conduct._review import GivenLabel, LabelWritten, Review, ReviewQueue
    from repotrial.conduct._stages import StageChecked
    from repotrial.conduct._status import PilotStatus
    from repotrial.conduct._study import PlanResult, Study, StudyArm
    from repotrial.conduct._template import render_pilot
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "Bundle",
    "ConductSettings",
    "FreezeResult",
    "FrozenDocuments",
    "GivenLabel",
    "LabelWritten",
    "PilotNotice",
    "PilotStatus",
    "PlanResult",
    "Review",
    "ReviewQueue",
    "StageChecked",
    "Study",
    "StudyArm",
    "admit_places",
    "iter_progress",
    "load_conducted",
    "load_documents",
    "render_pilot",
    "stamp_registration",
    "verify_no_peek",
    "write_bundle",
]
