"""Numbers, sizes, durations, failures, turns and tables as a reader takes them in at a glance.

Not here: texts for one display alone.
"""
