"""The port to leader election and to values that outlive a leader, and its implementation in memory.

Not here: implementations that outlive a process (`flykka/cluster/high_availability`).
"""
