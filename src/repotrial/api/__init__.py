"""The verbs of RepoTrial: what the command line calls, and what programs may call.

The only package that sees everything below it. It joins the others and decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.agents import AgentCheck
    from repotrial.analysis import (
        AgentSummary,
        PilotArm,
        PowerAnalysis,
        RunComparison,
        RunSide,
        RunsSummary,
        compare_runs,
        explain_run,
        summarize_runs,
    )
    from repotrial.api._agent_catalogue import (
        check_named_agent,
        install_named_agent,
        list_agents,
        verify_agent_names,
    )
    from repotrial.api._archive import (
        ArchivedRun,
        apply_archive,
        approve_archive,
        open_originals,
        plan_archive,
        show_access,
        shred_originals,
    )
    from repotrial.api._catalogue import build_schema, find_error, list_errors, list_schemas
    from repotrial.api._certification import (
        Certification,
        CertificationRequest,
        certify_contract,
        create_contract,
        prove_contract,
        refresh_contract,
    )
    from repotrial.api._contracts import (
        ContractCheck,
        check_contract,
        describe_certificate,
        describe_contract,
        find_certificate,
        load_contract,
        lock_contract,
        verify_lock,
    )
    from repotrial.api._export import export_runs
    from repotrial.api._fleet import Fleet, WorkRequest, open_places
    from repotrial.api._images import import_image, list_images, remove_images
    from repotrial.api._machine import (
        LeftOut,
        MachineSettings,
        choose_available,
        execute_in_contract,
        find_shell_status,
        fix_machine,
        list_cache,
        list_shared_by_runs,
        probe_sandbox,
        prune_cache,
        run_doctor,
    )
    from repotrial.api._mining import MineRequest, apply_review, mine_contracts
    from repotrial.api._models import ModelChoice, read_budgets
    from repotrial.api._open_pilot import open_pilot
    from repotrial.api._open_runs import open_runs
    from repotrial.api._outputs import CheckTests, ProgramOutput, iter_run_outputs, iter_run_tests, open_lines
    from repotrial.api._page import write_run_page
    from repotrial.api._pilot_analysis import (
        analyze_conducted,
        analyze_table,
        bundle_pilot,
        check_analysis,
        report_analysis,
    )
    from repotrial.api._pilot_review import list_review, show_review, write_label
    from repotrial.api._pilot_run import run_pilot, show_pilot
    from repotrial.api._pilots import freeze_pilot, init_pilot, plan_pilot
    from repotrial.api._recompute import RecomputedRun, decide_run, recompute_run
    from repotrial.api._rejudge import RejudgedRun, load_judge, rejudge_run, replay_run
    from repotrial.api._report import BuiltReport, ReportRequest, build_report, write_summary_page
    from repotrial.api._requests import keep_request, load_requests
    from repotrial.api._retrieval import (
        NormalizationRequest,
        TruthExplanation,
        evaluate_retrieval,
        explain_ground_truth,
        normalize_retrieval,
        validate_retrieval,
    )
    from repotrial.api._retrieval_study import compare_retrieval, report_retrieval
    from repotrial.api._runs import (
        NO_PRICES,
        KeyRing,
        ListedKey,
        RunCheck,
        ScoredRun,
        iter_run_timeline,
        list_event_types,
        list_runs,
        load_prices,
        load_trusted_keys,
        score_run,
        show_key,
        show_programs,
        verify_run,
    )
    from repotrial.api._serve import serve_runs
    from repotrial.api._suites import MeasuredContract, certify_suite, lock_suite, measure_contract
    from repotrial.api._trials import (
        RunScored,
        RunUnscored,
        TrialEvent,
        TrialPlan,
        TrialRequest,
        UpstreamChecked,
        conduct_trials,
        plan_trials,
    )
    from repotrial.authoring import (
        CommitContract,
        CreatedContract,
        LockResult,
        NewContract,
        SwebenchContract,
        find_checkout,
        load_swebench_instances,
    )
    from repotrial.conduct import (
        GivenLabel,
        PilotNotice,
        PilotStatus,
        StageChecked,
        admit_places,
        stamp_registration,
    )
    from repotrial.contract import LoadedContract
    from repotrial.environment import KeptImage
    from repotrial.fleet import (
        RunConditions,
        RunNotConducted,
        RunPhase,
        RunRepeated,
        RunSkipped,
        RunStarted,
        WorkerEvent,
    )
    from repotrial.interop import HarborTask, survey_harbor
    from repotrial.machine import DoctorReport, KeptItem
    from repotrial.mining import Mine, MinePlan, MineRow, ProvedContract, ReviewOutcome
    from repotrial.retrieval import (
        AssociationScope,
        Evaluation,
        MatchedComparison,
        NormalizedTask,
        RetrievalComparison,
        SupplementOptions,
    )
    from repotrial.run import Replay, RunEnded, Stopper
    from repotrial.score import (
        JudgedRun,
        ProgramLine,
        ProgramsView,
        QuotedLines,
        RunCost,
        RunEntry,
        RunFilter,
        count_deviations,
        describe_deviations,
        find_run_directories,
        judge_run,
        label_agents,
        list_rejudged,
        load_change,
        price_run,
    )
    from repotrial.signing import TrustedKeys
    from repotrial.trace import TimelineRow
    from repotrial.viewer import ViewerGuard, ViewerSettings
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "NO_PRICES",
    "AgentCheck",
    "AgentSummary",
    "ArchivedRun",
    "AssociationScope",
    "BuiltReport",
    "Certification",
    "CertificationRequest",
    "CheckTests",
    "CommitContract",
    "ContractCheck",
    "CreatedContract",
    "DoctorReport",
    "Evaluation",
    "Fleet",
    "GivenLabel",
    "HarborTask",
    "JudgedRun",
    "KeptImage",
    "KeptItem",
    "KeyRing",
    "LeftOut",
    "ListedKey",
    "LoadedContract",
    "LockResult",
    "MachineSettings",
    "MatchedComparison",
    "MeasuredContract",
    "Mine",
    "MinePlan",
    "MineRequest",
    "MineRow",
    "ModelChoice",
    "NewContract",
    "NormalizationRequest",
    "NormalizedTask",
    "PilotArm",
    "PilotNotice",
    "PilotStatus",
    "PowerAnalysis",
    "ProgramLine",
    "ProgramOutput",
    "ProgramsView",
    "ProvedContract",
    "QuotedLines",
    "RecomputedRun",
    "RejudgedRun",
    "Replay",
    "ReportRequest",
    "RetrievalComparison",
    "ReviewOutcome",
    "RunCheck",
    "RunComparison",
    "RunConditions",
    "RunCost",
    "RunEnded",
    "RunEntry",
    "RunFilter",
    "RunNotConducted",
    "RunPhase",
    "RunRepeated",
    "RunScored",
    "RunSide",
    "RunSkipped",
    "RunStarted",
    "RunUnscored",
    "RunsSummary",
    "ScoredRun",
    "StageChecked",
    "Stopper",
    "SupplementOptions",
    "SwebenchContract",
    "TimelineRow",
    "TrialEvent",
    "TrialPlan",
    "TrialRequest",
    "TrustedKeys",
    "TruthExplanation",
    "UpstreamChecked",
    "ViewerGuard",
    "ViewerSettings",
    "WorkRequest",
    "WorkerEvent",
    "admit_places",
    "analyze_conducted",
    "analyze_table",
    "apply_archive",
    "apply_review",
    "approve_archive",
    "build_report",
    "build_schema",
    "bundle_pilot",
    "certify_contract",
    "certify_suite",
    "check_analysis",
    "check_contract",
    "check_named_agent",
    "choose_available",
    "compare_retrieval",
    "compare_runs",
    "conduct_trials",
    "count_deviations",
    "create_contract",
    "decide_run",
    "describe_certificate",
    "describe_contract",
    "describe_deviations",
    "evaluate_retrieval",
    "execute_in_contract",
    "explain_ground_truth",
    "explain_run",
    "export_runs",
    "find_certificate",
    "find_checkout",
    "find_error",
    "find_run_directories",
    "find_shell_status",
    "fix_machine",
    "freeze_pilot",
    "import_image",
    "init_pilot",
    "install_named_agent",
    "iter_run_outputs",
    "iter_run_tests",
    "iter_run_timeline",
    "judge_run",
    "keep_request",
    "label_agents",
    "list_agents",
    "list_cache",
    "list_errors",
    "list_event_types",
    "list_images",
    "list_rejudged",
    "list_review",
    "list_runs",
    "list_schemas",
    "list_shared_by_runs",
    "load_change",
    "load_contract",
    "load_judge",
    "load_prices",
    "load_requests",
    "load_swebench_instances",
    "load_trusted_keys",
    "lock_contract",
    "lock_suite",
    "measure_contract",
    "mine_contracts",
    "normalize_retrieval",
    "open_lines",
    "open_originals",
    "open_pilot",
    "open_places",
    "open_runs",
    "plan_archive",
    "plan_pilot",
    "plan_trials",
    "price_run",
    "probe_sandbox",
    "prove_contract",
    "prune_cache",
    "read_budgets",
    "recompute_run",
    "refresh_contract",
    "rejudge_run",
    "remove_images",
    "replay_run",
    "report_analysis",
    "report_retrieval",
    "run_doctor",
    "run_pilot",
    "score_run",
    "serve_runs",
    "show_access",
    "show_key",
    "show_pilot",
    "show_programs",
    "show_review",
    "shred_originals",
    "stamp_registration",
    "summarize_runs",
    "survey_harbor",
    "validate_retrieval",
    "verify_agent_names",
    "verify_lock",
    "verify_run",
    "write_label",
    "write_run_page",
    "write_summary_page",
]
