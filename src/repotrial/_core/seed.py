"""The planned root seed (P8): replicate and stratum streams are spawned from it."""

from __future__ import annotations

ROOT_SEED = 20260307
"""Any other root seed is a protocol deviation, stated in the report."""
