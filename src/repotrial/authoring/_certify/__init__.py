"""Certification: a contract is tried before it may judge agents (C13)."""
