"""Props and state of actors as data.

Not here: state of jobs (`spark_bridge/state`).
"""
