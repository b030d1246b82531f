"""The JobManager and its parts."""
