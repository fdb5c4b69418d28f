"""Certification: a contract is tried before it may try anybody (C13)."""
