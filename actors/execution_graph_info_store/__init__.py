"""The ExecutionGraphInfoStore, which answers questions about running and ended jobs.

Not here: the models that it answers from (`machines/read_model`), and decisions.
"""
