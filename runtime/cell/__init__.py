"""Cells: actors apart from their instances, which a restart replaces.

Not here: the choice of threads (`dispatch`) and the message queues (`mailbox`).
"""
