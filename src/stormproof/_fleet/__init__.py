"""What stands between a budget, limiter, breaker or bulkhead and a store shared by many processes."""
