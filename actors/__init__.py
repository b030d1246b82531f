"""The actors, one folder each: thin shells around the pure state machines that make their decisions.

Not here: rows, Spark and user code (reached through the ports in `data_plane`), and the actor kernel (`runtime`).
"""

if __name__ != "flykka.actors":
    raise ImportError(
        f"import this package as flykka.actors, not as {__name__}: a second copy of every class would follow"
    )
