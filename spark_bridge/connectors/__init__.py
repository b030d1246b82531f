"""Sources and sinks: their ports and their implementations."""
