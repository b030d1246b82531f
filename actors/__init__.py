"""WHO LIVES HERE: the cast of a job as thin shells, and the pure machines that they think with.

A module beside this one is an actor, a part of one, or its I/O: actors hold refs, hand events to their machines and
perform the effects. A folder holds machines: they import `messages` and the pure standard library, and know neither
clocks nor actors.
"""

if __name__ != "flykka.actors":
    raise ImportError(
        f"import this room as flykka.actors, not as {__name__}: a second copy of every class would follow"
    )
