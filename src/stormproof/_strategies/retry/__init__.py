"""Retrying: options and success path, the loop, backoff and jitter, generators."""
