"""The declaration of messages, their msgpack form, and the ids and refs that they carry.

Not here: messages themselves.
"""
