"""High-availability stores that outlive a process: a local folder, and ZooKeeper.

Not here: the interface of stores (`actors/high_availability`).
"""
