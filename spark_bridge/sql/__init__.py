"""SQL texts as Spark understands them: analyzed plans, and parts of these that are applied to batches.

Not here: the streams and operators that they become (`flykka/api/table`).
"""
