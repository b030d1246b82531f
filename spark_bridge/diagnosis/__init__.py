"""Failures of Spark and of user code: their reasons, operators and lines.

The reaction to a failure is in `actors/machines/restart`.
"""
