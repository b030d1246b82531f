"""Failures of Spark and of user code: their reasons, operators and lines.

Not here: the reaction to a failure (`actors/machines/restart`).
"""
