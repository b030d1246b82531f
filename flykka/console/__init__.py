"""Displays a job in a terminal, or in a file of lines: its events, its live display and its summary.

Displays of notebooks are in `notebook`, and texts for several displays in `views/text`.
"""
