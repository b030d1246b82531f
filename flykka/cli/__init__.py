"""The command line: one module per command, which is loaded when the command is run.

Not here: displays (`console`, `views`, `traces`), and the work itself (`api`, `client`).
"""
