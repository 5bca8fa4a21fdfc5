"""Golden data: inputs and expected outputs as files."""
