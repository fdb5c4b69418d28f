"""Setup: the contract's steps before the agent, in a sandbox of their own that is thrown away (C4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from repotrial._core.beneath import open_beneath
from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest
from repotrial.contract import LoadedContract, SetupStep
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
from repotrial.trace import Exited
from repotrial.workspace import SetupAttempts, SetupPlace

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
        with self._open_place(place) as sandbox, watch_interrupt(sandbox.close):
            for number, step in enumerate(self._loaded.contract.setup):
                self._serve(sandbox, step, number, place)
        self._verify_outputs(place)
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
        result = sandbox.run(
            CommandSpec(
                argv=("bash", "-euo", "pipefail", "-c", step.run),
                cwd=WORKSPACE if step.cwd == "." else f"{WORKSPACE}/{step.cwd}",
                variables={"REPOTRIAL_SETUP": SETUP_TARGET, **variables, **step.variables},
                timeout_seconds=step.timeout_seconds or _STEP_SECONDS,
                prefix_bytes=_KEPT_BYTES,
                output_bytes=self._loaded.contract.limits.output_mb * _MEGABYTE,
            )
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
