"""Measures recording, replay and simulation of runs, and the size of a recording."""
