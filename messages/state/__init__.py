"""State handles, and the state that operators store in a checkpoint in addition to their batches.

Not here: the state itself, which is in files.
"""
