"""Area 03: restart strategies, the handling of failures, and which strategy holds."""
