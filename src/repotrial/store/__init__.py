"""Object stores: directories and buckets behind one small face, opened by a probe of what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.store._open import is_store_url, open_store
    from repotrial.store._probe import probe_store, verify_claims_hold
    from repotrial.store._store import (
        STORE_DIGEST,
        STORE_MISSING,
        STORE_UNREACHABLE,
        Store,
        StoredObject,
    )
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "STORE_DIGEST",
    "STORE_MISSING",
    "STORE_UNREACHABLE",
    "Store",
    "StoredObject",
    "is_store_url",
    "open_store",
    "probe_store",
    "verify_claims_hold",
]
