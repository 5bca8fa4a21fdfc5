"""From what callers write to a decided call: requests are built here, and decided here, and nowhere else."""
