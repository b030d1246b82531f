"""Area 01: the checkpoint coordinator, its stores, master hooks, failure counting and statistics."""
