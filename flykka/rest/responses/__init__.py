"""Responses as JSON: pure functions of read models. Times are in epoch ms, durations in ms, and -1 means never.

Not here: requests and their paths (`rest/handlers`).
"""
