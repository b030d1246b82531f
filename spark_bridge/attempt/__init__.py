"""An execution attempt on Spark: its engine, threads, batches and end.

What an operator does with a batch is in `operators`.
"""
