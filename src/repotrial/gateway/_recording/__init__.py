"""Recordings of exchanges: made beside a run, replayed in the place of a provider."""
