"""`flykka savepoint`: what is in a savepoint, and whether an app can start from it."""
