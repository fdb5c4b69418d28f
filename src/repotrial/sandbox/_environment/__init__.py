"""Tools and packages that a sandbox sees: the host's own, or built once from a lock and kept."""
