"""The ExecutionGraphInfoStore, which answers questions about jobs, also when they have ended.

Not here: the models that it answers from (`machines/read_model`), and anything that decides.
"""
