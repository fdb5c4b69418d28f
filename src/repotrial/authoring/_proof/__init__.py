"""What a draft from a merged change needs to run, and what its tests did when they were run."""
