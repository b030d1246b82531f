"""Compares the speed of actors with that of plain Pykka in the same run."""
