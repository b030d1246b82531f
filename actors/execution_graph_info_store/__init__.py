"""The ExecutionGraphInfoStore, which answers queries about running and ended jobs.

Not here: the models from which it answers (`machines/read_model`), and decisions.
"""
