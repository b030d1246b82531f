"""Failures of Spark and of user code: their reasons, operators and lines."""
