"""Errors that tests expect."""

from __future__ import annotations

import pytest

from repotrial._core.errors import RepoTrialError


def raises_code(*codes: str, match: str | None = None) -> pytest.RaisesExc[RepoTrialError]:
    """Expect an error with one of these codes; `match` as in `pytest.raises`."""

    def has_code(error: RepoTrialError) -> bool:
        assert error.code in codes, f"expected {' or '.join(codes)}, found {error.code}: {error}"
        return True

    return pytest.raises(RepoTrialError, match=match, check=has_code)
