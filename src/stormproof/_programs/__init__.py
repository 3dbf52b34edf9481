"""Policies for whole programs: workers, set-up that runs once, connections that come back."""
