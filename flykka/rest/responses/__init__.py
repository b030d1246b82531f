"""Answers as JSON has them: pure functions of the messages of the read model, by the names of Flink's REST API.

Times are ms since the epoch, lengths of time ms; -1 is for what has not happened.
"""
