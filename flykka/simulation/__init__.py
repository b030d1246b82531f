"""Simulates a complete cluster on one thread in virtual time: the real actors, few real rows, faults drawn from a seed.

Not here: Spark; the rules against which runs are checked (`monitors`).
"""
