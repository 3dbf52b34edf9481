"""Event types, subscribers, the log, names and counts of operations."""
