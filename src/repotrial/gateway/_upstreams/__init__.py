"""Whoever answers in the end: a provider, a recording, either with faults on purpose."""
