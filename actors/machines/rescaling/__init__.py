"""Rescaling of a running job: the bounds of its vertices, what fits into the slots, and the way there."""
