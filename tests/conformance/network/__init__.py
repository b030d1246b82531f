"""Area 09: the exchange between tasks, kind by kind."""
