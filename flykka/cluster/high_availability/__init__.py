"""High-availability stores that outlive a process: a local folder, and ZooKeeper.

Their interface is in `actors/high_availability`.
"""
