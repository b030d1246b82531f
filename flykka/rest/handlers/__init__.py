"""Handlers of requests, by subject.

Not here: the JSON of responses (`rest/responses`).
"""
