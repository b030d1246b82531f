"""Replay: a recorded run taken again, turn by turn in the recorded order, and compared with what was recorded.

Not here: files of traces (`trace`), and stand-ins for the outside of jobs (`flykka/replay`).
"""
