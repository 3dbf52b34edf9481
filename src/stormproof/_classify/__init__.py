"""Is a failure worth retrying? From an exception or a response to a verdict."""
