"""`flykka savepoint`: inspects savepoints, and checks whether an app can start from one.

Not here: reading of savepoint files (`client`, `actors/checkpoint_storage`).
"""
