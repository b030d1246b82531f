"""Answers as JSON: pure functions of read models. Times are epoch ms, durations ms; -1 means not happened.

Not here: requests and their paths (`rest/handlers`).
"""
