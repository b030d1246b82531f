"""A replay that one walks through."""
