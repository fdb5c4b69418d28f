"""Units of time. Since 2.0 months and years are gone: they have no fixed length."""

UNITS = {
    "w": 604800,
    "d": 86400,
    "h": 3600,
    "m": 60,
    "s": 1,
    "ms": 0.001,
}
"""Seconds per unit, from the largest to the smallest."""
