"""Pure machines: each takes events and returns effects; no clock, thread, logger or actor."""
