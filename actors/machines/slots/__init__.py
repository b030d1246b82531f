"""Slots: offered, requested, shared and allocated."""
