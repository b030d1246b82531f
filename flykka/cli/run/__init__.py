"""`flykka run`: an app, its jobs on the screen, and what Ctrl-C does to them.

Not here: the picture of a job (`console`).
"""
