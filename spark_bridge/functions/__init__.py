"""Functions with keyed state and timers, as users write them and as Python workers and simulations run them.

Pure Python without Spark, numpy, Arrow or clocks: times are passed in.
"""
