"""Referees of any stack: do bits depend on the batch (`invariance`), are gradients right (`audit`)."""
