"""The actors, one folder each: thin shells around the pure state machines that make their decisions.

Not here: rows, Spark and user code, which are reached through the ports in `data_plane`; and what every actor needs
(`runtime`).
"""

if __name__ != "flykka.actors":
    raise ImportError(
        f"import this package as flykka.actors, not as {__name__}: a second copy of every class would follow"
    )
