"""Handlers of requests, by subject.

Not here: the JSON of answers (`rest/responses`).
"""
