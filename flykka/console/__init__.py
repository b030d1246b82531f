"""Displays a job in a terminal, or in a file of lines: its events, its live display and its summary.

Not here: displays of notebooks (`notebook`), and texts for several displays (`views/text`).
"""
