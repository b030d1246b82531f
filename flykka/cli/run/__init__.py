"""`flykka run`: runs an app, displays its jobs, and handles Ctrl-C.

The display of a job is in `console`.
"""
