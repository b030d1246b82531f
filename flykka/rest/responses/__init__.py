"""Answers as JSON: pure functions of read models. Times are epoch ms, durations ms; -1 means not happened.

Requests and their paths are in `rest/handlers`.
"""
