"""What is asked: the law, the numbers, the three values. No engine, no rule, no files."""
