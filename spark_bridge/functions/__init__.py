"""Functions with keyed state and timers, as users write them and as Python workers and simulations run them.

Not here: Spark, numpy, Arrow and clocks. This is pure Python, and times are passed in.
"""
