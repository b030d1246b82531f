"""Latency beside Structured Streaming: from the arrival of a file to the commit of its rows."""
