"""SQL texts as Spark understands them: analyzed plans, and subtrees of plans that are applied to batches.

Not here: the streams and operators that queries become (`flykka/api/table`).
"""
