"""The exchange between tasks: result partitions, input gates, credits, barriers, watermarks.

Not here: stages, and what a task does with its inputs (`attempt`).
"""
