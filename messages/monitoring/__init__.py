"""Messages that report about a job without deciding anything: explanations, exceptions, details, flight records.

Not here: messages that a state machine needs for its decisions.
"""
