"""Area 04: pipelined regions, their failover, their scheduling, and the release of results."""
