"""The declaration of messages, their msgpack form, and the ids and refs that they contain.

Not here: the messages themselves.
"""
