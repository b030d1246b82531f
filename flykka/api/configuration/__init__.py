"""The options of flykka: by one name in a file, in environment variables, on the command line and in Python.

Not here: what an option does.
"""
