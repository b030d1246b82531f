"""`flykka savepoint`: inspects savepoints, and checks whether an app can start from one.

Reading of its files is in `client` and `actors/checkpoint_storage`.
"""
