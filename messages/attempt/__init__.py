"""Commands of an execution attempt's state machine to the engine that processes its rows, and the engine's replies.

Not here: messages between tasks (`tasks`).
"""
