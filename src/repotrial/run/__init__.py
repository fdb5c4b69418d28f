"""One trial: bind, set up, brief, act, accept, seal; every phase leaves its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.run._accept import find_variants
    from repotrial.run._accept._execute import list_mixable, list_twins
    from repotrial.run._accept._rehearse import Rehearsal, rehearse_check
    from repotrial.run._agents import (
        Agent,
        CommandAgent,
        HumanAgent,
        ModelAgent,
        NoopAgent,
        PatchAgent,
        ReferenceAgent,
        ScriptAgent,
        load_agent_file,
        short_version,
    )
    from repotrial.run._books import price_acceptance
    from repotrial.run._conduct import RunEnded, conduct_run
    from repotrial.run._directory import RUN_DIRECTORY, AttemptIndex, remove_unfinished
    from repotrial.run._replay import Replay, replay_run
    from repotrial.run._request import (
        HUMAN_UNAVAILABLE,
        MODEL_ACCESS_MISSING,
        CostAccess,
        Handover,
        ModelAccess,
        OwnPolicy,
        PlannedRun,
        RunSettings,
        UpstreamOrder,
        build_spec,
    )
    from repotrial.run._setup_network import ProxiedSetup
    from repotrial.run._stop import RUN_STOPPED, Stopper
    from repotrial.run._watch._breakers import build_body_reader
    from repotrial.run._watch._inbox import Answer, find_question, put_answer
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "HUMAN_UNAVAILABLE",
    "MODEL_ACCESS_MISSING",
    "RUN_DIRECTORY",
    "RUN_STOPPED",
    "Agent",
    "Answer",
    "AttemptIndex",
    "CommandAgent",
    "CostAccess",
    "Handover",
    "HumanAgent",
    "ModelAccess",
    "ModelAgent",
    "NoopAgent",
    "OwnPolicy",
    "PatchAgent",
    "PlannedRun",
    "ProxiedSetup",
    "ReferenceAgent",
    "Rehearsal",
    "Replay",
    "RunEnded",
    "RunSettings",
    "ScriptAgent",
    "Stopper",
    "UpstreamOrder",
    "build_body_reader",
    "build_spec",
    "conduct_run",
    "find_question",
    "find_variants",
    "list_mixable",
    "list_twins",
    "load_agent_file",
    "price_acceptance",
    "put_answer",
    "rehearse_check",
    "remove_unfinished",
    "replay_run",
    "short_version",
]
