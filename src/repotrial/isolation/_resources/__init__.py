"""What a sandbox may use, what it uses, and pausing it."""
