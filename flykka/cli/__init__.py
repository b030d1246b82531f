"""The command line: one module for each command, loaded when the command was typed.

Not here: what a command shows (`console`, `views`, `traces`) and does (`api`, `client`).
"""
