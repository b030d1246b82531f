"""Numbers, sizes, durations, failures, turns and tables as short texts.

Not here: texts for only one display.
"""
