"""Leaves: how text reaches a person or a file."""
