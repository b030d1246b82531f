"""The options of flykka, with one name for files, environment variables, the command line and Python.

Options are only defined and parsed here; they take effect elsewhere.
"""
