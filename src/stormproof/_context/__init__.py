"""Surroundings of a running call: deadlines, cancellation, the attempt."""
