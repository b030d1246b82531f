"""High-availability stores that outlive a process: a local folder, and ZooKeeper.

Not here: their interface (`actors/high_availability`).
"""
