"""SQL texts as Spark understands them: analyzed plans, and parts of these that are applied to batches.

Not here: which streams and operators they become (`flykka/api/table`).
"""
