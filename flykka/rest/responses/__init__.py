"""Responses as JSON: pure functions of read models. Times are in epoch ms, durations in ms; -1 if not happened.

Requests and their paths are in `rest/handlers`.
"""
