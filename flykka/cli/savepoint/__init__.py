"""`flykka savepoint`: what is in a savepoint, and whether an app can start from it.

Not here: reading of its files (`client`, `actors/checkpoint_storage`).
"""
