"""Mailboxes: the envelopes in them, the kinds that Props can ask for, and the dead letters.

Not here: who takes messages out (`cell`).
"""
