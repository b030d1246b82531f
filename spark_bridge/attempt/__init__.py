"""An execution attempt on Spark: its engine, its threads, its batches and its end.

Not here: how an operator processes a batch (`operators`).
"""
