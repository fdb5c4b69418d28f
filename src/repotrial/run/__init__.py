"""One trial: bind, set up, brief, act, accept, seal; every phase leaves its evidence."""

from repotrial.run._accept import find_variants
from repotrial.run._accept._execute import CandidateLostError, list_twins
from repotrial.run._act import AgentSandboxLostError, ReferenceMissingError
from repotrial.run._agents import (
    Agent,
    AgentFileError,
    CommandAgent,
    HumanAgent,
    NoopAgent,
    PatchAgent,
    ReferenceAgent,
    ScriptAgent,
    build_agent_configuration,
    load_agent_file,
    short_version,
)
from repotrial.run._briefing import BriefingLeakError, BriefingText, build_briefing, verify_no_leak
from repotrial.run._conduct import ConductedRun, conduct_run
from repotrial.run._directory import RunDirectoryError, find_attempts, open_attempt
from repotrial.run._human import Handover, HumanUnavailableError, refuse_handover
from repotrial.run._lifecycle import PHASES, Lifecycle, PhaseOrderError
from repotrial.run._progress import RunListener, SilentListener
from repotrial.run._replay import Divergence, Replay, ReplayMismatchError, ReplayRequest, replay_run
from repotrial.run._request import RunRequest, build_spec
from repotrial.run._results import ResultsUnreadableError
from repotrial.run._seeds import build_seeds, spawn_seed
from repotrial.run._stop import RunStoppedError, Stopper

__all__ = [
    "PHASES",
    "Agent",
    "AgentFileError",
    "AgentSandboxLostError",
    "BriefingLeakError",
    "BriefingText",
    "CandidateLostError",
    "CommandAgent",
    "ConductedRun",
    "Divergence",
    "Handover",
    "HumanAgent",
    "HumanUnavailableError",
    "Lifecycle",
    "NoopAgent",
    "PatchAgent",
    "PhaseOrderError",
    "ReferenceAgent",
    "ReferenceMissingError",
    "Replay",
    "ReplayMismatchError",
    "ReplayRequest",
    "ResultsUnreadableError",
    "RunDirectoryError",
    "RunListener",
    "RunRequest",
    "RunStoppedError",
    "ScriptAgent",
    "SilentListener",
    "Stopper",
    "build_agent_configuration",
    "build_briefing",
    "build_seeds",
    "build_spec",
    "conduct_run",
    "find_attempts",
    "find_variants",
    "list_twins",
    "load_agent_file",
    "open_attempt",
    "refuse_handover",
    "replay_run",
    "short_version",
    "spawn_seed",
    "verify_no_leak",
]
