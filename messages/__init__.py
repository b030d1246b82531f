"""WHAT IS SAID: frozen values and their msgpack form.

The room imports nothing of ours. Every message an actor of flykka sends is declared here, one conversation a module;
`flykka.messages.wire.codec` turns each of them into bytes and back.
"""

if __name__ != "flykka.messages":
    raise ImportError(
        f"import this room as flykka.messages, not as {__name__}: a second copy of every class would follow"
    )
