"""Stores of high availability that outlive a process: a folder of this machine, and ZooKeeper.

Not here: their port (`actors/high_availability`).
"""
