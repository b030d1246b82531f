"""Handlers of requests, by what they are about.

Not here: the JSON of answers (`rest/responses`).
"""
