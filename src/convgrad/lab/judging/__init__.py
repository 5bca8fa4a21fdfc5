"""Judging results: metrics, named standards, error maps, error anatomy."""
