"""Describes failures of Spark and of user code: reason, operator and line.

Not here: the reaction to a failure (`actors/machines/restart`).
"""
