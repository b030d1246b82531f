"""Area 03: restart strategies, the handling of failures, and the selection of a strategy."""
