"""What both tile kernels need: records and their checks, reports, ledgers, golden tiles, the parts of pictures."""
