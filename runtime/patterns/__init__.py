"""Patterns on top of the kernel, as in akka.pattern: FSM, circuit breaker, backoff supervisor, coordinated shutdown.

Not here: mechanisms that every actor has (`cell`).
"""
