"""Settings of the command, from a TOML file."""

import tomllib
from dataclasses import dataclass, fields

from lapse.duration import parse


@dataclass(frozen=True)
class Settings:
    parts: int = 2
    default_unit: str = "s"
    limit: str = "5m"


def load(text):
    """The settings of a file's `[lapse]` table; unknown keys are errors."""
    table = tomllib.loads(text).get("lapse", {})
    known = {field.name for field in fields(Settings)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ValueError(f"unknown setting: {', '.join(unknown)}")
    settings = Settings(**table)
    parse(settings.limit)
    return settings
