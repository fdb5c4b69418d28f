"""Existing engines place, restart and end workers; each starts the same command. No scheduler of ours."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final, assert_never

import msgspec

from repotrial._core.files import write_atomic
from repotrial.fleet._dask import start_dask
from repotrial.fleet._engine_order import (
    ENGINE_FILE,
    ENGINE_UNAVAILABLE,
    EngineName,
    EngineOrder,
    EngineStarted,
)

_SUBMIT_SECONDS: Final = 60
_KEY_PLACE: Final = "/run/repotrial/seal-key.pem"
_BAD_INPUT: Final = 2
"""The exit code of a worker that refuses the plan: to start it again does not help."""


def start_workers(engine: EngineName, order: EngineOrder) -> EngineStarted:
    """Have workers started.

    Raises:
        ENGINE_FILE: the settings lack something.
        ENGINE_UNAVAILABLE: the engine is not here, or refused.
    """
    match engine:
        case "slurm":
            return _start_slurm(order)
        case "kubernetes":
            return _write_kubernetes(order)
        case "dask":
            return start_dask(order)
        case _:
            assert_never(engine)


def render_slurm(order: EngineOrder) -> str:
    """A job array: each element is one worker, and is started again if its node is lost."""
    settings, slurm = order.settings, order.settings.slurm
    log = order.directory.absolute() / f"{order.name}-%A-%a.log"
    head = [
        "#!/bin/sh",
        f"#SBATCH --job-name={order.name}",
        f"#SBATCH --array=0-{settings.workers - 1}",
        "#SBATCH --ntasks=1",
        f"#SBATCH --cpus-per-task={settings.slots}",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        f"#SBATCH --output={log}",
        # Named ones alone: whatever else the caller's environment holds stays there.
        f"#SBATCH --export={','.join(slurm.variables) or 'NIL'}",
        *(f"#SBATCH {option}" for option in slurm.options),
        "set -eu",
    ]
    if slurm.secrets_file is not None:
        head += ["set -a", f". {shlex.quote(slurm.secrets_file)}", "set +a"]
    command = order.build_command(order.program, str(order.key_file.absolute()))
    return "\n".join([*head, f"exec {shlex.join(command)}"]) + "\n"


def _start_slurm(order: EngineOrder) -> EngineStarted:
    path = _write(order, f"{order.name}.sh", render_slurm(order).encode())
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise ENGINE_UNAVAILABLE.error(f"expected sbatch on this machine, found none; the script is {path}")
    try:
        ended = subprocess.run(
            [sbatch, "--parsable", str(path)],
            capture_output=True,
            text=True,
            timeout=_SUBMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ENGINE_UNAVAILABLE.error(f"sbatch: expected an answer, found: {error}") from error
    if ended.returncode != 0:
        said = " ".join(ended.stderr.split())[:300]
        raise ENGINE_UNAVAILABLE.error(f"sbatch: expected a job, found exit code {ended.returncode}: {said}")
    job = ended.stdout.strip().partition(";")[0]
    return EngineStarted(engine="slurm", file=str(path), jobs=(job,), next_step=f"squeue -j {job}")


def build_kubernetes(order: EngineOrder) -> dict[str, object]:
    """An Indexed Job: each index is one worker; a pod is replaced only when the one before has ended."""
    settings = order.settings.kubernetes
    if settings is None:
        raise ENGINE_FILE.error("expected [kubernetes] with an image in the engine file, found none")
    container: dict[str, object] = {
        "name": "worker",
        "image": settings.image,
        "command": order.build_command(("repotrial",), _KEY_PLACE),
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"memory": settings.memory},
        },
    }
    pod: dict[str, object] = {"restartPolicy": "Never", "hostUsers": False, "containers": [container]}
    if settings.secret is not None:
        container["envFrom"] = [{"secretRef": {"name": settings.secret}}]
    if settings.key_secret is not None:
        # By subPath: otherwise the file is a link, and a key that is a link is refused.
        key = Path(_KEY_PLACE)
        container["volumeMounts"] = [
            {"name": "study-key", "mountPath": _KEY_PLACE, "subPath": key.name, "readOnly": True}
        ]
        volume = {"secretName": settings.key_secret, "defaultMode": 0o400}
        pod["volumes"] = [{"name": "study-key", "secret": volume}]
    rules: list[dict[str, object]] = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailIndex",
            "onExitCodes": {"containerName": "worker", "operator": "In", "values": [_BAD_INPUT]},
        },
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": order.name, "namespace": settings.namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": order.settings.workers,
            "parallelism": order.settings.workers,
            "backoffLimitPerIndex": 3,
            "maxFailedIndexes": order.settings.workers,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": rules},
            "template": {"metadata": {"labels": {"app": "repotrial"}}, "spec": pod},
        },
    }


def _write_kubernetes(order: EngineOrder) -> EngineStarted:
    manifest = msgspec.json.format(msgspec.json.encode(build_kubernetes(order)), indent=2) + b"\n"
    path = _write(order, f"{order.name}.json", manifest)
    return EngineStarted(engine="kubernetes", file=str(path), jobs=(), next_step=f"kubectl apply -f {path}")


def _write(order: EngineOrder, name: str, data: bytes) -> Path:
    path = order.directory / name
    try:
        write_atomic(path, data, mode=0o600)
    except OSError as error:
        raise ENGINE_UNAVAILABLE.error(f"{path}: expected to write it, found: {error}") from error
    return path
