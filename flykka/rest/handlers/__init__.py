"""Handlers of requests, by subject.

The JSON of answers is in `rest/responses`.
"""
