"""Handlers of requests, by what they are about."""
