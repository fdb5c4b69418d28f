"""The network of steps that declare one: the harness's port inside, served by a proxy (P9)."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Final, Protocol, TypeAlias

import msgspec

from repotrial._core.digest import digest_file
from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial.contract import AllowListNetwork, FilePin, LoadedContract, ReplayNetwork, SetupStep
from repotrial.environment._installation._place import CONTRACT_CHANGED, ScratchPlace
from repotrial.environment._installation._sandbox import ContractSandbox
from repotrial.isolation import SANDBOX_ENTRY, Bind, Capabilities, open_listener
from repotrial.redaction import Redactor, SecretRedactor
from repotrial.syscalls import FloodRecord, NetworkRecord, SyscallRecord
from repotrial.workspace import SetupAttempt, SetupAttempts

SETUP_FAILED = ErrorCode(
    "setup-failed",
    ContractError,
    "A step of Setup did not succeed.",
    hint="look at what it printed; steps run in the contract's own environment, and reach what their "
    "`network` names and nothing else",
)
SETUP_OUTPUT_MISSING = ErrorCode(
    "setup-output-missing",
    ContractError,
    "Setup ended well, but something that a step declares as its output is not there.",
    hint="declare only what the steps make",
)
SETUP_NETWORK = ErrorCode(
    "setup-network",
    MachineError,
    "A step of Setup wants the network, and there is no proxy here that keeps to the contract.",
    hint="use a machine that reaches level L3 or L2 (`repotrial doctor` says how); or put what the step "
    'fetches beside the contract as an artifact, and set network = "none"',
)


DeclaredNetwork: TypeAlias = AllowListNetwork | ReplayNetwork

_PORT: Final = 4001
_CERTIFICATE: Final = "/opt/repotrial/authority.pem"
_KEPT: Final = 2000
"""Attempts of each kind, good and bad: a step can make them without end."""
_SHOWN: Final = 5


class StepNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """What one step may reach, and how its answers are kept or found."""

    policy: DeclaredNetwork
    tape: Path | None
    """Recorded answers: where there are some, nothing outside is reached."""
    record_to: Path | None
    """Where answers are recorded; None if they are not."""


class ServedNetwork(Protocol):
    """The network of one Setup, ready to be served."""

    @property
    def certificate(self) -> bytes:
        """What programs inside have to trust (PEM)."""
        ...

    def build_variables(self, port: int, certificate: str) -> dict[str, str]:
        """What programs have to be told: where the proxy listens, and where the certificate lies."""
        ...

    def serve(
        self, listener: socket.socket, network: StepNetwork, sink: Callable[[SetupAttempt], None]
    ) -> AbstractContextManager[None]:
        """Answer on a listener inside until the block ends; then nothing that it opened is open any more.

        The listener is closed with it. Names are resolved outside, and only addresses of the public internet
        are reached.
        """
        ...


class SetupNetwork(Protocol):
    """Opens the network that a contract's Setup declares."""

    def open(self) -> ServedNetwork:
        """For one Setup: authorities and keys are not shared."""
        ...


def verify_setup_network(
    steps: Sequence[SetupStep], network: SetupNetwork | None, capabilities: Capabilities
) -> None:
    """Refuse what could only fail later.

    Raises:
        SETUP_NETWORK: a step wants the network, and there is none for it.
    """
    for number, step in enumerate(steps):
        if step.network == "none":
            continue
        name = f"setup: {name_step(step, number)}"
        if network is None:
            raise SETUP_NETWORK.error(
                f"{name}: expected a proxy that opens its network, found none",
                hint="give the installation a `network`; or put what the step fetches beside the contract as "
                'an artifact, and set network = "none"',
            )
        if capabilities.network != "namespace":
            raise SETUP_NETWORK.error(
                f"{name}: expected a sandbox with a network namespace of ours for a step with network, "
                f"found level {capabilities.level.value}"
            )


def find_recording_pins(loaded: LoadedContract, step: SetupStep) -> list[FilePin]:
    """The files of a step's recorded answers; none where it has no recording, or it was not made yet."""
    if step.network == "none" or step.network.recording is None:
        return []
    place = PurePosixPath(step.network.recording)
    return [pin for pin in loaded.files if PurePosixPath(pin.path).is_relative_to(place)]


class SetupAccess:
    """Serves each step its own network, and none to the others; keeps what was tried.

    Args:
        loaded: The contract.
        network: Opens it, when a step runs.
        place: Where what programs inside see is put.
        redactor: Keeps values of secrets out of the record.
    """

    def __init__(
        self, loaded: LoadedContract, network: SetupNetwork, *, place: ScratchPlace, redactor: Redactor
    ) -> None:
        self._loaded = loaded
        self._network = network
        self._place = place
        self._redactor = redactor
        self._lock = Lock()
        self._step = ""
        self._kept: list[SetupAttempt] = []
        self._counts: Counter[bool] = Counter()

    @cached_property
    def binds(self) -> tuple[Bind, ...]:
        """The authority's certificate, as programs inside see it."""
        source = self._place.write("authority.pem", self._served.certificate)
        return (Bind(source=source, target=_CERTIFICATE),)

    @cached_property
    def _served(self) -> ServedNetwork:
        return self._network.open()

    @contextmanager
    def serve(
        self, sandbox: ContractSandbox, step: SetupStep, number: int, kept: Path
    ) -> Iterator[dict[str, str]]:
        """Let a step have its network while the block lasts.

        Args:
            sandbox: Where it runs.
            step: The step.
            number: Its place.
            kept: Where recorded answers of all steps go.

        Yields:
            What its programs have to be told.

        Raises:
            SETUP_FAILED: what an earlier step left running has taken the port.
            CONTRACT_CHANGED: recorded answers are no longer those that were loaded.
        """
        self._step = name_step(step, number)
        if step.network == "none":
            yield {}
            return
        absent = self._loaded.contract.environment.absent
        variables = self._served.build_variables(_PORT, _CERTIFICATE)
        network = self._find_network(step, step.network, kept / str(number + 1))
        # One for each step: between them, and after the last, nothing listens.
        with self._served.serve(_listen(sandbox, self._step), network, self._keep):
            yield {name: value for name, value in variables.items() if name not in absent}

    def watch(self, record: SyscallRecord) -> None:
        """Take what the syscall supervisor saw: an attempt past the proxy is one, too."""
        match record:
            case NetworkRecord(address=address, call=call, error=error):
                host, _, port = address.rpartition(":")
                self._keep(
                    SetupAttempt(
                        host=host or address,
                        port=int(port) if port.isdecimal() else 0,
                        way="direct",
                        method=call,
                        path="",
                        verdict="refused",
                        reason=f"past the proxy there is no network ({error})",
                    )
                )
            case FloodRecord(call_class="network", count=count):
                with self._lock:
                    self._counts[False] += count
            case _:
                pass

    def collect(self) -> SetupAttempts:
        """Everything so far, in the order in which it was over."""
        with self._lock:
            return SetupAttempts(kept=tuple(self._kept), left_out=self._counts.total() - len(self._kept))

    def describe_refusals(self) -> str:
        """The last that the step under way did not get, for the message that it failed."""
        with self._lock:
            found = [item for item in self._kept if item.step == self._step and not _is_good(item)]
        return "\n".join(f"network: {item.host}:{item.port}: {item.reason}" for item in found[-_SHOWN:])

    def _find_network(self, step: SetupStep, policy: DeclaredNetwork, kept: Path) -> StepNetwork:
        pins = find_recording_pins(self._loaded, step)
        for pin in pins:
            path = self._loaded.directory / pin.path
            found = digest_file(path) if path.is_file() else "nothing"
            if found != pin.digest:
                raise CONTRACT_CHANGED.error(f"{pin.path}: expected {pin.digest}, found {found}")
        recording = policy.recording
        is_replayed = recording is not None and (bool(pins) or isinstance(policy, ReplayNetwork))
        return StepNetwork(
            policy=policy,
            tape=self._loaded.directory / recording if recording is not None and is_replayed else None,
            record_to=kept if recording is not None and not is_replayed else None,
        )

    def _keep(self, attempt: SetupAttempt) -> None:
        is_good = _is_good(attempt)
        with self._lock:
            self._counts[is_good] += 1
            if self._counts[is_good] > _KEPT:
                return
            clean = msgspec.structs.replace(
                attempt,
                step=self._step,
                host=self._clean(attempt.host),
                method=self._clean(attempt.method),
                path=self._clean(attempt.path),
                reason=self._clean(attempt.reason),
            )
            self._kept.append(clean)

    def _clean(self, text: str) -> str:
        printable = text.encode("utf-8", "backslashreplace").decode()
        return self._redactor.redact(printable).text


def find_setup_access(
    loaded: LoadedContract,
    network: SetupNetwork | None,
    *,
    place: ScratchPlace,
    secrets: Mapping[str, str],
) -> SetupAccess | None:
    """What steps need to reach what they declare; None if none declares anything."""
    if network is None or all(step.network == "none" for step in loaded.contract.setup):
        return None
    return SetupAccess(loaded, network, place=place, redactor=SecretRedactor(secrets))


def _listen(sandbox: ContractSandbox, step: str) -> socket.socket:
    try:
        return open_listener(sandbox.pid, _PORT)
    except MachineError as error:
        if error.code != SANDBOX_ENTRY:
            raise
        raise SETUP_FAILED.error(
            f"setup: {step}: expected port {_PORT} inside to be free for its network, found: {error.message}"
        ) from error


def _is_good(attempt: SetupAttempt) -> bool:
    return attempt.verdict in {"passed", "replayed"}


def name_step(step: SetupStep, number: int) -> str:
    """A step as messages call it."""
    return step.id or f"step {number + 1}"
