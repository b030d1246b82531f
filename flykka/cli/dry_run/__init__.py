"""Runs an app up to its first `execute`, for `flykka plan` and `flykka savepoint check`.

Not here: apps whose jobs are run (`cli/run`).
"""
