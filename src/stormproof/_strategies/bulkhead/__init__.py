"""The bulkhead: a bound on calls in flight."""
