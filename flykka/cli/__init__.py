"""The command line: one module per command, loaded when the command is typed.

Displays are in `console`, `views` and `traces`, the work itself in `api` and `client`.
"""
