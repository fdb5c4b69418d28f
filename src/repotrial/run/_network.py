"""The network of contracts that declare one: a proxy inside the sandbox, every attempt an event (P9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import AlertSeverity
from repotrial.contract import AllowListNetwork, Check, Network, ReplayNetwork
from repotrial.environment import ContractSandbox
from repotrial.gateway import GatewayLoop
from repotrial.isolation import Bind, open_listener
from repotrial.run._context import BoundRun
from repotrial.run._request import NetworkAccess
from repotrial.trace import MonitorAlert, Signal, TraceWriter

if TYPE_CHECKING:
    from repotrial.gateway import NetworkAttempt, RunAuthority

PROXY_PORT: Final = 4001
_CERTIFICATE: Final = "/opt/repotrial/authority.pem"
_ALERTS_KEPT: Final = 2000
_SEVERITIES: Final[dict[str, AlertSeverity]] = {"passed": "info", "replayed": "info"}


NETWORK_RECORD = ErrorCode(
    "network-record",
    MachineError,
    "What programs did with the network could not be put on record.",
    hint="check the disk's space; the run proves nothing, and can be conducted again",
)


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """What a sandbox needs so that its programs find the proxy; nothing where the contract declares none."""

    declared: AllowListNetwork | ReplayNetwork | None = None
    phase: Literal["act", "accept"] = "act"
    record_to: Path | None = None
    """Where answers are recorded; None for the run directory itself."""
    authority: RunAuthority | None = None
    variables: dict[str, str] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()

    @contextmanager
    def serve(self, run: BoundRun, sandbox: ContractSandbox, access: NetworkAccess) -> Iterator[None]:
        """Let the proxy listen inside for as long as the block lasts."""
        if self.declared is None:
            yield
            return
        from repotrial.gateway import build_network_proxy

        directory = run.plan.loaded.directory
        proxy = build_network_proxy(
            self.declared,
            sink=_AttemptLog(run.writer, self.phase),
            authority=self.authority,
            tape=_find_tape(self.declared, directory),
            record_to=self.record_to or run.paths.root,
            resolver=access.resolver,
            check=access.check,
        )
        with GatewayLoop.shared().attach(open_listener(sandbox.pid, PROXY_PORT), proxy):
            yield
        if proxy.problems:
            raise NETWORK_RECORD.error(
                f"expected every attempt to use the network on record, found: {'; '.join(proxy.problems)}"
            )


def plan_check_network(check: Check, run: BoundRun, stack: ExitStack) -> NetworkPlan:
    """The same for an execution of a check: by its own list only, recorded beside what it left (Q7)."""
    plan = plan_network(check.network, run, stack)
    if plan.declared is None:
        return plan
    kept = run.paths.acceptance / check.id
    place = kept / f"network-{len(list(kept.glob('network-*'))) + 1}"
    place.mkdir(parents=True)
    return replace(plan, phase="accept", record_to=place)


def plan_network(network: Network, run: BoundRun, stack: ExitStack) -> NetworkPlan:
    """What the agent's sandbox is told about the network that its contract declares."""
    if not isinstance(network, AllowListNetwork | ReplayNetwork):
        return NetworkPlan()
    from repotrial.gateway import RunAuthority

    authority = RunAuthority()
    room = stack.enter_context(run.installation.open_scratch())
    certificate = room.write("authority.pem", authority.certificate_pem)
    return NetworkPlan(
        declared=network,
        authority=authority,
        variables=authority.build_variables(PROXY_PORT, certificate=_CERTIFICATE),
        binds=(Bind(source=certificate, target=_CERTIFICATE),),
    )


def _find_tape(network: AllowListNetwork | ReplayNetwork, directory: Path) -> Path | None:
    """Recorded answers, where the contract has some: then nothing outside is reached."""
    if network.recording is None:
        return None
    path = directory / network.recording
    return path if isinstance(network, ReplayNetwork) or path.exists() else None


class _AttemptLog:
    """Turns attempts into events; beyond a bound only refusals are told one by one."""

    def __init__(self, writer: TraceWriter, phase: Literal["act", "accept"]) -> None:
        self._writer = writer
        self._phase = phase
        self._kept = 0

    def __call__(self, attempt: NetworkAttempt) -> None:
        severity = _SEVERITIES.get(attempt.verdict, "warning")
        self._kept += 1
        if self._kept > _ALERTS_KEPT and severity == "info":
            return
        text = f"{attempt.method} {attempt.way} {attempt.host}:{attempt.port}{attempt.path} {attempt.reason}"
        alert = MonitorAlert(
            monitor="network",
            rule=f"network-{attempt.verdict}",
            severity=severity,
            phase=self._phase,
            signals=(
                Signal(name="sent_bytes", value=attempt.sent_bytes),
                Signal(name="received_bytes", value=attempt.received_bytes),
            ),
        )
        self._writer.alert(alert, text.strip())
