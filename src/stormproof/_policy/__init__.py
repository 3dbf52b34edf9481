"""Strategies put together. Start in policy.py."""
