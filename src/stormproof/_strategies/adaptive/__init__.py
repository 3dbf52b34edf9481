"""Limits that follow measured latency and throttling."""
