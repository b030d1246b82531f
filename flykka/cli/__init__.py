"""The command line: one module per command, loaded when the command is typed.

Not here: displays (`console`, `views`, `traces`), and the work itself (`api`, `client`).
"""
