"""The JobMaster, which runs one job, and the parts that carry out the effects of its state machines.

Not here: decisions (`machines`: graph, scheduling, restart, slots, sources, rescaling).
"""
