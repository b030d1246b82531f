"""A replay that one walks through: steps, breakpoints, causes.

Not here: commands that are typed (`flykka/cli`).
"""
