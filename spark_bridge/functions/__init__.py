"""Functions with keyed state and timers, as users write them and as they are run.

Pure Python without Spark, numpy or Arrow: Spark's Python workers and the simulation run the same code. It reads no
clock: times are handed in.
"""
