"""A job on a terminal, or in a file of lines: its events, its live picture and its summary.

Not here: displays of notebooks (`notebook`), and text that others show too (`views/text`).
"""
