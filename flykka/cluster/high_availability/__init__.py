"""Stores of high availability that outlive a process: a folder of this machine, and ZooKeeper."""
