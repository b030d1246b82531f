"""Times a backlog of small files, from the start of a process to its end, compared with Structured Streaming."""
