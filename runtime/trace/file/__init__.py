"""The file of a trace: its format, what is packed for it, and its reader.

Not here: when records are written (`trace/record`).
"""
