"""Names that others gave, in the form in which ours are compared."""

from __future__ import annotations

import re
from typing import Final

_OTHER_CHARACTERS: Final = re.compile(r"[^a-z0-9]+")


def normalize_name(name: str) -> str:
    """Lower-case words joined by single dashes; empty where there is no ASCII letter or digit.

    Names that differ only in case and in what joins their parts are the same: `owner__Repo-12` and
    `owner-repo-12`.
    """
    return _OTHER_CHARACTERS.sub("-", name.casefold()).strip("-")
