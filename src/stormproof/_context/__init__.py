"""What surrounds a running call: deadlines, cancellation, the attempt."""
