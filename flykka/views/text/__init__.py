"""Formats numbers, sizes, durations, failures, turns and tables as short texts that several displays use.

Not here: texts for a single display.
"""
