"""The class of a machine: what comparisons of runs take account of, and no more."""

from __future__ import annotations

import os
import platform
from typing import Final

_GIBIBYTE: Final = 2**30


def read_cpu_class() -> str:
    """Architecture and number of processors."""
    return f"{platform.machine()} x{os.cpu_count() or 1}"


def read_memory_class() -> str:
    """Main memory in whole gibibytes: a class, not a fingerprint."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, round(total / _GIBIBYTE))} GiB"
