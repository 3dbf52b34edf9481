"""The pure rules of retrying: the arithmetic of waits, and the decision after a failed attempt."""
