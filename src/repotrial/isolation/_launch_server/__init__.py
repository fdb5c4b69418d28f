"""What small processes of ours run: modules that need the standard library and our errors, nothing else."""
