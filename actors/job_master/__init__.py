"""The JobMaster, which runs one job, and the parts that perform effects for its machines.

Not here: decisions (`machines`: graph, scheduling, restart, slots, sources, rescaling).
"""
