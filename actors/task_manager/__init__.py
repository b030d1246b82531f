"""The TaskManager and its parts."""
