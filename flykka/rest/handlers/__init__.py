"""Handlers of requests, by subject.

The JSON of responses is created in `rest/responses`.
"""
