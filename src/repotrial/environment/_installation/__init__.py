"""A contract's environment, made ready once on this machine, and the sandboxes that are opened in it."""
