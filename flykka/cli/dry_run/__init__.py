"""Runs an app up to its first `execute`, for `flykka plan` and `flykka savepoint check`.

Apps whose jobs are run are in `cli/run`.
"""
