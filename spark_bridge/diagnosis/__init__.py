"""Failures of Spark and of user code: their reasons, operators and lines.

Not here: what follows a failure (`actors/machines/restart`).
"""
