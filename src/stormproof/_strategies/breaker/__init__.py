"""The circuit breaker, its tickets and its rules."""
