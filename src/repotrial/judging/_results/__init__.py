"""Structured test results of every format in one form. Pure: bytes in, results out."""
