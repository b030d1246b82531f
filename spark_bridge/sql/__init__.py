"""SQL texts as Spark understands them: analyzed plans, and parts of these that are applied to batches.

The streams and operators that they become are in `flykka/api/table`.
"""
