"""The actors as thin shells, a folder each, and the pure machines that decide for them.

Not here: rows, Spark and user code, which are behind the ports of `data_plane`; mechanisms of any actor (`runtime`).
"""

if __name__ != "flykka.actors":
    raise ImportError(
        f"import this package as flykka.actors, not as {__name__}: a second copy of every class would follow"
    )
