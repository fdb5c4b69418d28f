"""Durations made of durations."""

from lapse.duration import DurationError, parse


def backoff(first, *, factor=2, limit="5m", count=5):
    """Pauses between attempts: each `factor` times the one before, none over `limit`."""
    pause, most = parse(first), parse(limit)
    pauses = []
    for _ in range(count):
        pauses.append(min(pause, most))
        pause *= factor
    return pauses


def split(total, count):
    """`count` equal parts in whole milliseconds; the first ones take what does not divide."""
    if count < 1:
        raise DurationError("count must be at least 1")
    milliseconds = round(parse(total) * 1000)
    size, extra = divmod(milliseconds, count)
    return [(size + (index < extra)) / 1000 for index in range(count)]
