"""The kinds of mailbox that Props can ask for. The default one is `flykka.runtime.mailbox.Mailbox` with a plain deque."""
