"""Hedging: another attempt when the first is slow."""
