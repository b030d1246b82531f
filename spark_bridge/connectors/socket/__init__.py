"""A source of lines of text from a socket, for demonstrations and tests.

Not here: anything that can be read again after a failure.
"""
