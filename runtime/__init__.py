"""THE ACTOR KERNEL: Akka's ideas on Pykka.

Paths, mailboxes, supervision, DeathWatch, timers, dispatchers and the recorder. The room has never heard of jobs; it
imports `messages` and is the only one that imports pykka.
"""

if __name__ != "flykka.runtime":
    raise ImportError(
        f"import this room as flykka.runtime, not as {__name__}: a second copy of every class would follow"
    )
