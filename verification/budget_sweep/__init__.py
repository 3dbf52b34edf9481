"""The sweep behind the default budget's `burst`: sparse fleets against quiet callers."""
