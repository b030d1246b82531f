"""A replayed system that goes on by itself, perhaps with a fault."""
