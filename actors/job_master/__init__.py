"""The JobMaster and its parts."""
