"""The options of flykka, with one name for files, environment variables, the command line and Python.

Not here: code that options affect.
"""
