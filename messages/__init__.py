"""Messages: frozen values and their msgpack form, one module per conversation.

Not here: any other part of flykka; this package imports none of it.
"""

if __name__ != "flykka.messages":
    raise ImportError(
        f"import this package as flykka.messages, not as {__name__}: a second copy of every class would follow"
    )
