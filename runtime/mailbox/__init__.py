"""Mailboxes: their envelopes, the kinds that Props can specify, and the dead letters.

Not here: taking messages out (`cell`).
"""
