"""Isolation back ends: each module here registers itself by its `BACK_ENDS`."""
