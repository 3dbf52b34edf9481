"""Engines that run a scenario: event by event, or compiled."""
