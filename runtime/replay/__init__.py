"""Replay: runs a recorded run again, turn by turn in the recorded order, and compares it with the record.

Not here: files of traces (`trace`), and stand-ins for what is outside of jobs (`flykka/replay`).
"""
