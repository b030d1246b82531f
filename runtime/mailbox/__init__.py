"""Mailboxes: their envelopes, the types that Props can specify, and the dead letters.

Not here: taking messages out of a mailbox (`cell`).
"""
