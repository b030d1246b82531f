"""The actors of a job as thin shells, and the pure machines that decide for them.

Each actor has a folder: actors hold refs, give events to their machines and perform the effects. The folders of
`machines` import `messages` and the pure standard library, and know neither clocks nor actors.
"""

if __name__ != "flykka.actors":
    raise ImportError(
        f"import this package as flykka.actors, not as {__name__}: a second copy of every class would follow"
    )
