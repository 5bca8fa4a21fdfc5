"""The command `convgrad`: one module per verb."""
