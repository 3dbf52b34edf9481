"""What happened, and who wants to know: event types, subscribers, the log, names and counts of operations."""
