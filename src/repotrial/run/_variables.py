"""Variables that keep a candidate out of its judge."""

from __future__ import annotations

from typing import Final

JUDGE_VARIABLES: Final = {
    # No packages of a home directory, no compiled leftovers beside sources, no plugins that a tree brings.
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
"""Set for every check unless the contract sets them."""
