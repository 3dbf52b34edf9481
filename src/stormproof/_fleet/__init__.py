"""Between a budget, limiter, breaker or bulkhead and the store that many processes share."""
