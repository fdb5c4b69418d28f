"""What this machine can do: doctor and the probe of every promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.machine._cache_items import KeptItem, list_kept, prune_kept
    from repotrial.machine._doctor import DoctorReport, execute_doctor
    from repotrial.machine._fix import DoctorFix, execute_doctor_fix
    from repotrial.machine._probe_suite._run import ProbeReport, execute_probe
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "DoctorFix",
    "DoctorReport",
    "KeptItem",
    "ProbeReport",
    "execute_doctor",
    "execute_doctor_fix",
    "execute_probe",
    "list_kept",
    "prune_kept",
]
