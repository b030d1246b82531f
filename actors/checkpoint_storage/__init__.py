"""Checkpoints at rest: their files, and the pointers to them."""
