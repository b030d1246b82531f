"""Between the machine of an execution attempt and the engine that moves its rows: commands and their answers.

Not here: messages between tasks (`tasks`).
"""
