"""Numbers, sizes, lengths of time, failures, turns and tables as a reader takes them in at a glance."""
