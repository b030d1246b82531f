"""Replay: runs a recorded run again, turn by turn in the recorded order, and compares it with the record.

Not here: the files of traces (`trace`), and stand-ins for objects outside of jobs (`flykka/replay`).
"""
