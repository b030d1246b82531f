"""The local cluster, its launch and its stores of high availability."""
