"""Messages: frozen values and their msgpack form.

The package imports nothing else of flykka. Every message that an actor of flykka sends is declared here, one
conversation a module; `flykka.messages.wire.codec` turns each of them into bytes and back.
"""

if __name__ != "flykka.messages":
    raise ImportError(
        f"import this package as flykka.messages, not as {__name__}: a second copy of every class would follow"
    )
