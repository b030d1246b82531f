"""State of subtasks: key groups, state handles, redistribution when the parallelism changes.

Not here: the content of state (`spark_bridge/state`).
"""
