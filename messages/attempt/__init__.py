"""Commands of an execution attempt's state machine to the engine that processes its rows, and their answers.

Not here: messages between tasks (`tasks`).
"""
