"""Messages that tell about a job without deciding anything: explanations, exceptions, details, flight records.

Not here: messages that any machine needs to decide.
"""
