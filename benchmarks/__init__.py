"""Speed and memory, measured in comparison with other engines. Not installed: run from the repository."""
