"""Short spellings of a contract's values, replaced by what they stand for before anything else reads them.

Both spellings are one document: the version id is over the model, never over the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

IMAGE_PATTERN: Final = r"^(?:oci|oci-archive|docker-archive):[^\x00-\x1f]+$|^[^\s:@]\S*@sha256:[0-9a-f]{64}$"
"""What an image may be written as in one word; the schema for editors has the same."""

_ARCHIVES: Final = {"oci": "archive", "oci-archive": "archive", "docker-archive": "docker-archive"}
_REFERENCE: Final = re.compile(
    r"[a-z0-9][\w.-]*(?::[0-9]+)?(?:/[\w./-]+)?(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
)
_SEPARATORS: Final = "/:@"


def expand_spellings(value: dict[str, Any]) -> dict[str, Any]:
    """The same document with images as tables; whatever is no image in one word stays as it is."""
    environment = value.get("environment")
    if not isinstance(environment, dict):
        return value
    expanded = _expand_entry(environment)
    services = environment.get("services")
    if isinstance(services, list):
        expanded = {
            **expanded,
            "services": [_expand_entry(item) if isinstance(item, dict) else item for item in services],
        }
    return {**value, "environment": expanded}


def _expand_entry(table: Mapping[str, Any]) -> dict[str, Any]:
    image = table.get("image")
    return {**table, "image": _expand_image(image)} if isinstance(image, str) else dict(table)


def _expand_image(text: str) -> str | dict[str, str]:
    scheme, colon, path = text.partition(":")
    if colon and scheme in _ARCHIVES:
        return {"kind": _ARCHIVES[scheme], "path": path}
    # A name with a tag is one, too: it is refused as such, by the rule about tags.
    if _REFERENCE.fullmatch(text) and any(mark in text for mark in _SEPARATORS):
        return {"kind": "reference", "reference": text}
    return text
