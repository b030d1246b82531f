"""The ExecutionGraph: execution attempts and their states, deployments, failures."""
