"""Ground truth: which files, lines and symbols matter for a task, and who says so (R5, R6)."""
