"""What runs a scenario: event by event, or compiled."""
