"""`flykka run`: an app, its jobs on the screen, and what Ctrl-C does to them."""
