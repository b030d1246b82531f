"""The ClusterEntrypoint and the parts that it starts."""
