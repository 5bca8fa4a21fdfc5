"""Pages and C tables made from the rows."""
