"""Sinks: where rows go, staged per checkpoint and published when it is complete."""
