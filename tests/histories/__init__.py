"""Golden traces: recorded runs that are replayed for ever, and how they were recorded."""
