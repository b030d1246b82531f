"""Responses as JSON: pure functions of read models. Times are in epoch ms, durations in ms; -1 if not happened.

Not here: requests and their paths (`rest/handlers`).
"""
