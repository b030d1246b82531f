"""The TaskManager, which has slots and runs Tasks in them, and its parts.

Not here: the Task itself (`task`).
"""
