"""Handles of state, and the state that operators keep beside their batches."""
