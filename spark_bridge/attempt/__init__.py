"""An execution attempt on Spark: its engine, threads, batches and end.

Not here: the work of an operator on a batch (`operators`).
"""
