"""The adaptive limits' arithmetic, pure."""
