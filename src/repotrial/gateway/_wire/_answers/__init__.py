"""Answers of all dialects, read while they come."""
