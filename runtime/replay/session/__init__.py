"""Interactive replays: steps, breakpoints, causes.

Not here: commands that users type (`flykka/cli`).
"""
