"""The breaker's state machines, pure: one process, and a fleet."""
