"""`flykka savepoint`: inspects savepoints, and checks whether an app can start from one.

Their files are read by `client` and `actors/checkpoint_storage`.
"""
