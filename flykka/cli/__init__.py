"""The command line: one module per command, which is loaded when the command is run.

Displays are in `console`, `views` and `traces`; the work itself is done by `api` and `client`.
"""
