"""`flykka run`: runs an app, displays its jobs, and handles Ctrl-C.

Not here: the display of a job (`console`).
"""
