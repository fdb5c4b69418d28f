"""One trial: bind, set up, brief, act, accept, seal; every phase leaves its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.run._accept import find_variants
    from repotrial.run._accept._execute import CandidateLostError, list_mixable, list_twins
    from repotrial.run._accept._judge_recorded import RecordedCheck, apply_judgement, judge_recorded
    from repotrial.run._act import ReferenceMissingError
    from repotrial.run._adapters import (
        Adapter,
        AdapterInvalidError,
        AdapterUnknownError,
        AgentCheck,
        AgentProgramMissingError,
        CheckedNeed,
        InstalledAgent,
        LoadedAdapter,
        ModelNameError,
        build_adapter_schema,
        check_agent,
        find_adapter,
        find_installed,
        find_runtime,
        install_agent,
        list_adapters,
        load_adapter,
        open_agent,
    )
    from repotrial.run._agents import (
        Agent,
        AgentFileError,
        CommandAgent,
        HumanAgent,
        ModelAgent,
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
    from repotrial.run._directory import (
        AttemptIndex,
        RunDirectoryError,
        find_attempts,
        open_attempt,
        remove_unfinished,
    )
    from repotrial.run._faults import (
        AgentNotStartedError,
        AgentSandboxLostError,
        ModelUnreachableError,
        RunStoppedError,
    )
    from repotrial.run._gateway import (
        FaultPlan,
        FaultUpstream,
        GatewayLoop,
        ProviderConfig,
        ProviderUpstream,
        RecordingUpstream,
        ScriptUpstream,
        StatusFault,
        Upstream,
        build_script_schema,
        load_provider,
        load_recording,
        load_script,
        open_default_loop,
    )
    from repotrial.run._human import Handover, HumanUnavailableError, refuse_handover
    from repotrial.run._lifecycle import PHASES, Lifecycle, PhaseOrderError
    from repotrial.run._models import ModelAccess, ModelAccessMissingError, NetworkAccess, UpstreamOrder
    from repotrial.run._progress import RunListener, SilentListener
    from repotrial.run._replay import Divergence, Replay, ReplayMismatchError, ReplayRequest, replay_run
    from repotrial.run._request import RunRequest, build_spec
    from repotrial.run._results import (
        RecordedTests,
        ResultsUnreadableError,
        list_recorded_tests,
        read_recorded_tests,
    )
    from repotrial.run._seeds import build_seeds, spawn_seed
    from repotrial.run._setup_network import ProxiedSetup
    from repotrial.run._stop import Stopper
    from repotrial.run._watch import Answer, NobodyAsksError, build_body_reader, put_answer
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "PHASES",
    "Adapter",
    "AdapterInvalidError",
    "AdapterUnknownError",
    "Agent",
    "AgentCheck",
    "AgentFileError",
    "AgentNotStartedError",
    "AgentProgramMissingError",
    "AgentSandboxLostError",
    "Answer",
    "AttemptIndex",
    "BriefingLeakError",
    "BriefingText",
    "CandidateLostError",
    "CheckedNeed",
    "CommandAgent",
    "ConductedRun",
    "Divergence",
    "FaultPlan",
    "FaultUpstream",
    "GatewayLoop",
    "Handover",
    "HumanAgent",
    "HumanUnavailableError",
    "InstalledAgent",
    "Lifecycle",
    "LoadedAdapter",
    "ModelAccess",
    "ModelAccessMissingError",
    "ModelAgent",
    "ModelNameError",
    "ModelUnreachableError",
    "NetworkAccess",
    "NobodyAsksError",
    "NoopAgent",
    "PatchAgent",
    "PhaseOrderError",
    "ProviderConfig",
    "ProviderUpstream",
    "ProxiedSetup",
    "RecordedCheck",
    "RecordedTests",
    "RecordingUpstream",
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
    "ScriptUpstream",
    "SilentListener",
    "StatusFault",
    "Stopper",
    "Upstream",
    "UpstreamOrder",
    "apply_judgement",
    "build_adapter_schema",
    "build_agent_configuration",
    "build_body_reader",
    "build_briefing",
    "build_script_schema",
    "build_seeds",
    "build_spec",
    "check_agent",
    "conduct_run",
    "find_adapter",
    "find_attempts",
    "find_installed",
    "find_runtime",
    "find_variants",
    "install_agent",
    "judge_recorded",
    "list_adapters",
    "list_mixable",
    "list_recorded_tests",
    "list_twins",
    "load_adapter",
    "load_agent_file",
    "load_provider",
    "load_recording",
    "load_script",
    "open_agent",
    "open_attempt",
    "open_default_loop",
    "put_answer",
    "read_recorded_tests",
    "refuse_handover",
    "remove_unfinished",
    "replay_run",
    "short_version",
    "spawn_seed",
    "verify_no_leak",
]
