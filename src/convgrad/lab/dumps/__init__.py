"""Dumps of a PyTorch run by the vendor's debugging tool: its convolution calls rebuilt, judged and recomputed."""
