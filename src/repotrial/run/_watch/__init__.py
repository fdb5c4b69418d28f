"""Watching an agent at work: what it says, what it does, what it costs, and what is done about it."""
