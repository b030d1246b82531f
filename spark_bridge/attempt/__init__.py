"""An execution attempt on Spark: its engine, its threads, its batches and its end.

Not here: what an operator does with a batch (`operators`).
"""
