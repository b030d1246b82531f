"""Measures the speed of actors beside plain Pykka's in the same run."""
