"""Rate limits: the limiter, the pacer, the strategy around them."""
