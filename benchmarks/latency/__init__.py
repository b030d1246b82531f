"""Measures the latency from the arrival of a file to the commit of its rows, compared with Structured Streaming."""
