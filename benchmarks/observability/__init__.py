"""The cost of being watched, and the time of answers where there is much to tell."""
