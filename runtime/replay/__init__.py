"""Replay: a recorded run taken again, turn by turn in the recorded order, and compared with what was recorded."""
