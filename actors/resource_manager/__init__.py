"""The ResourceManager, which knows the TaskManagers and their slots, and its parts.

Not here: the decision which slot a request gets (`machines/slots`).
"""
