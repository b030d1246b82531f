"""Messages and values of the kernel itself: leader sessions, and blocking work in traces.

Not here: messages of the actors of jobs and clusters, which the kernel does not know.
"""
