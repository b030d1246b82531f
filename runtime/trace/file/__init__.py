"""The file of a trace: its format, the packed content, and its reader.

Not here: when records are written (`trace/record`).
"""
