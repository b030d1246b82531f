"""Simulates a complete cluster on one thread in virtual time: the real actors, few real rows, faults drawn from a seed.

Spark is not involved. The rules that runs are checked against are in `monitors`.
"""
