"""Messages: frozen values and their msgpack form, one conversation a module.

Not here: anything else of flykka: the package imports nothing of it.
"""

if __name__ != "flykka.messages":
    raise ImportError(
        f"import this package as flykka.messages, not as {__name__}: a second copy of every class would follow"
    )
