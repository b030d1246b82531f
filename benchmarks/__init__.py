"""Speed and memory, measured beside what else could do the work. Not installed: run from the repository."""
