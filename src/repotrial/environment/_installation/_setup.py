"""Setup: the contract's steps before the agent, in a sandbox of their own that is thrown away (C4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from repotrial._core.beneath import open_beneath
from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial.contract import LoadedContract, SetupStep
from repotrial.environment._executions import (
    HostExecution,
    build_execution,
    capture,
    load_executions,
    save_executions,
    tell_execution,
    telling,
)
from repotrial.environment._installation._mounts import SetupOutputs
from repotrial.environment._installation._place import ScratchPlace, read_pinned
from repotrial.environment._installation._sandbox import ContractSandbox, describe_end, render_tail
from repotrial.environment._installation._setup_network import (
    SETUP_FAILED,
    SETUP_OUTPUT_MISSING,
    SetupAccess,
    find_recording_pins,
    name_step,
)
from repotrial.environment._process import watch_interrupt
from repotrial.isolation import WORKSPACE, Account, Bind, CommandSpec
from repotrial.trace import Exited, ExitUnknown
from repotrial.workspace import Base, SetupAttempts, SetupPlace

SETUP_TARGET: Final = "/opt/repotrial/setup"
"""Where steps find their scripts."""
_FORMAT: Final = "repotrial/setup@1"
_STEP_SECONDS: Final = 600
_MEGABYTE: Final = 1024**2
_KEPT_BYTES: Final = 8 * _MEGABYTE


def write_scripts(loaded: LoadedContract, place: ScratchPlace) -> Bind | None:
    """Copies of the steps' scripts, by their path below the contract's `setup` directory."""
    paths = dict.fromkeys(path for step in loaded.contract.setup for path in step.scripts)
    executable = {pin.path: pin.is_executable for pin in loaded.files}
    for path in paths:
        name = f"setup/{path.removeprefix('setup/')}"
        place.write(name, read_pinned(loaded, path), is_executable=executable.get(path, False))
    return Bind(source=place.path / "setup", target=SETUP_TARGET) if paths else None


class ContractSetup:
    """Setup as the cache of bases sees it.

    Args:
        loaded: The contract.
        outputs: What is kept.
        facts: What else decides the product: places where something is mounted, variables.
        owner: The account that programs inside have, where it is not ours.
        open_place: Opens the sandbox that the steps run in.
        access: The network of steps that declare one; None if none does.
    """

    def __init__(
        self,
        loaded: LoadedContract,
        *,
        outputs: SetupOutputs,
        facts: Mapping[str, JsonValue],
        owner: Account,
        open_place: Callable[[SetupPlace], ContractSandbox],
        access: SetupAccess | None = None,
    ) -> None:
        self._loaded = loaded
        self._outputs = outputs
        self._facts = facts
        self._owner = owner
        self._open_place = open_place
        self._access = access
        self.is_executed = False
        """Whether it ran; false where its product was found."""

    def tell_again(self, base: Base) -> None:
        """Put on record what made a product that was found, with the time at which it did."""
        known = load_executions(base.executions)
        if known is None:
            known = [self._build_unknown(step, number, base) for number, step in enumerate(self._steps)]
        for execution in known:
            tell_execution(execution)

    @property
    def _steps(self) -> tuple[SetupStep, ...]:
        return self._loaded.contract.setup

    def _build_unknown(self, step: SetupStep, number: int, base: Base) -> HostExecution:
        made_at_us = base.label.made_at_us
        return HostExecution(
            purpose="set-up",
            name=name_step(step, number),
            step=number,
            argv=("bash", "-euo", "pipefail", "-c", step.run),
            cwd=step.cwd,
            exit=ExitUnknown(reason=f"{base.label.made_by} made the product and kept no record of its steps"),
            started_at_us=made_at_us,
            ended_at_us=made_at_us,
            stdout=capture(b""),
            stderr=capture(b""),
        )

    @cached_property
    def digest(self) -> Digest:
        """Over the steps, their scripts and everything that surrounds them."""
        contract = self._loaded.contract
        pins = {pin.path: pin.digest for pin in self._loaded.files}
        scripts: list[JsonValue] = [
            [path, pins.get(path)] for step in contract.setup for path in step.scripts
        ]
        tapes: list[JsonValue] = [
            [pin.path, pin.digest]
            for step in contract.setup
            for pin in find_recording_pins(self._loaded, step)
        ]
        steps: JsonValue = msgspec.to_builtins(contract.setup)
        targets: list[JsonValue] = list(self._outputs.targets)
        parts: dict[str, JsonValue] = {"steps": steps, "scripts": scripts, "targets": targets}
        if tapes:
            parts["recordings"] = tapes
        return canonical_digest({"format": _FORMAT, **parts, **self._facts})

    def execute(self, place: SetupPlace) -> SetupAttempts | None:
        """Run the steps; what they tried to reach, where one of them has a network.

        Raises:
            SETUP_FAILED: one of them fails.
            SETUP_OUTPUT_MISSING: one of them did not make what it declares.
        """
        for number in range(len(self._outputs.targets)):
            slot = place.outputs / str(number)
            slot.mkdir(0o755)
            slot.chmod(0o755)
            if os.geteuid() != self._owner.uid:
                os.chown(slot, self._owner.uid, self._owner.gid)
        executions: list[HostExecution] = []
        self.is_executed = True
        with (
            telling(executions.append),
            self._open_place(place) as sandbox,
            watch_interrupt(sandbox.close),
        ):
            for number, step in enumerate(self._steps):
                self._serve(sandbox, step, number, place)
        self._verify_outputs(place)
        save_executions(place.executions, executions)
        return None if self._access is None else self._access.collect()

    def _serve(self, sandbox: ContractSandbox, step: SetupStep, number: int, place: SetupPlace) -> None:
        if self._access is None:
            self._run(sandbox, step, number, {})
            return
        with self._access.serve(sandbox, step, number, place.recordings) as variables:
            self._run(sandbox, step, number, variables)

    def _run(
        self, sandbox: ContractSandbox, step: SetupStep, number: int, variables: Mapping[str, str]
    ) -> None:
        argv = ("bash", "-euo", "pipefail", "-c", step.run)
        seconds = step.timeout_seconds or _STEP_SECONDS
        started_us = SystemClock().now_us()
        result = sandbox.run(
            CommandSpec(
                argv=argv,
                cwd=WORKSPACE if step.cwd == "." else f"{WORKSPACE}/{step.cwd}",
                variables={"REPOTRIAL_SETUP": SETUP_TARGET, **variables, **step.variables},
                timeout_seconds=seconds,
                prefix_bytes=_KEPT_BYTES,
                output_bytes=self._loaded.contract.limits.output_mb * _MEGABYTE,
            )
        )
        execution = build_execution("set-up", name_step(step, number), argv, result, started_us=started_us)
        tell_execution(
            msgspec.structs.replace(execution, step=number, cwd=step.cwd, ceiling_us=seconds * 1_000_000)
        )
        if result.exit != Exited(code=0) or result.cause != "ended":
            refusals = "" if self._access is None else self._access.describe_refusals()
            raise SETUP_FAILED.error(
                f"setup: {name_step(step, number)}: expected exit code 0, found {describe_end(result)}\n"
                f"{render_tail(result)}" + (refusals and f"\n{refusals}")
            )

    def _verify_outputs(self, place: SetupPlace) -> None:
        handle = os.open(place.tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for path in self._outputs.in_tree:
                # A link counts as itself: where it leads is the sandbox's business.
                try:
                    os.close(open_beneath(handle, os.fsencode(path), os.O_PATH))
                except OSError as error:
                    raise SETUP_OUTPUT_MISSING.error(
                        f"setup: expected the output {path}, found: {error.strerror}"
                    ) from error
        finally:
            os.close(handle)
