"""The escape suite: attempts to get out of a sandbox, as data, and what makes them on this machine."""
