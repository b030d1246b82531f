"""Area 03: restart strategies, the handling of failures, and the choice of a strategy."""
