"""Answers as JSON has them: pure functions of read models. Times are epoch ms, durations ms; -1: has not happened.

Not here: requests and their paths (`rest/handlers`).
"""
