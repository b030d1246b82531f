"""How late rows come out, beside Structured Streaming: from a file's arrival to the commit of its rows."""
