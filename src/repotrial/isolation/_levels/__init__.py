"""Sandboxes by isolation level, and commands in them."""
