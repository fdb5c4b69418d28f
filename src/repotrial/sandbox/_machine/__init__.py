"""What this machine can do, what it lacks, and what is kept or left over on it."""
