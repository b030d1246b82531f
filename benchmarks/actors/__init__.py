"""Compares the speed of actors with plain Pykka's in the same run."""
