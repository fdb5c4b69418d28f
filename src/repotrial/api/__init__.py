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
        analyze_table,
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
    from repotrial.api._catalogue import build_schema, find_error, list_errors, list_schemas
    from repotrial.api._certification import (
        Certification,
        CertificationRequest,
        certify_contract,
        create_contract,
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
    from repotrial.api._machine import (
        LeftOut,
        MachineSettings,
        choose_available,
        execute_in_contract,
        find_shell_status,
        fix_machine,
        list_cache,
        probe_sandbox,
        prune_cache,
        run_doctor,
    )
    from repotrial.api._models import ModelChoice, read_budgets
    from repotrial.api._open_runs import open_runs
    from repotrial.api._outputs import CheckTests, ProgramOutput, iter_run_outputs, iter_run_tests
    from repotrial.api._page import write_run_page
    from repotrial.api._pilot_analysis import analyze_conducted, check_analysis, report_analysis
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
    from repotrial.api._suites import MeasuredContract, lock_suite, measure_contract
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
        load_swebench_instances,
    )
    from repotrial.conduct import PilotNotice, PilotStatus, StageChecked, verify_no_peek
    from repotrial.contract import LoadedContract
    from repotrial.fleet import RunConditions, RunNotConducted, RunPhase, RunRepeated, RunSkipped, RunStarted
    from repotrial.machine import DoctorReport, KeptItem
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
    from repotrial.trace import TimelineRow, TrustedKeys
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AgentCheck",
    "AgentSummary",
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
    "JudgedRun",
    "KeptItem",
    "KeyRing",
    "LeftOut",
    "ListedKey",
    "LoadedContract",
    "LockResult",
    "MachineSettings",
    "MatchedComparison",
    "MeasuredContract",
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
    "RecomputedRun",
    "RejudgedRun",
    "Replay",
    "ReportRequest",
    "RetrievalComparison",
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
    "analyze_conducted",
    "analyze_table",
    "build_report",
    "build_schema",
    "certify_contract",
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
    "find_certificate",
    "find_error",
    "find_run_directories",
    "find_shell_status",
    "fix_machine",
    "freeze_pilot",
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
    "list_rejudged",
    "list_runs",
    "list_schemas",
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
    "normalize_retrieval",
    "open_runs",
    "plan_pilot",
    "plan_trials",
    "price_run",
    "probe_sandbox",
    "prune_cache",
    "read_budgets",
    "recompute_run",
    "rejudge_run",
    "replay_run",
    "report_analysis",
    "report_retrieval",
    "run_doctor",
    "run_pilot",
    "score_run",
    "show_key",
    "show_pilot",
    "show_programs",
    "summarize_runs",
    "validate_retrieval",
    "verify_agent_names",
    "verify_lock",
    "verify_no_peek",
    "verify_run",
    "write_run_page",
    "write_summary_page",
]
