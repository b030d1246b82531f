"""Whose state is whose: key groups, state handles, redistribution when the parallelism changes."""
