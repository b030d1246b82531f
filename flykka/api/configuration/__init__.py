"""The options of flykka, with one name for files, environment variables, the command line and Python.

The effect of an option is implemented elsewhere.
"""
