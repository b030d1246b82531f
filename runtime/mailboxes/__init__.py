"""The kinds of mailbox that Props can ask for. What all of them share is `flykka.runtime.mailbox`."""
