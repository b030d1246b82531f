"""The ExecutionGraph: execution attempts and their states, deployments, failures.

Not here: which tasks are deployed or restarted when (`scheduling`, `restart`).
"""
