"""A job on a terminal, or in a file of lines: what happens, what it looks like now, and what came of it."""
