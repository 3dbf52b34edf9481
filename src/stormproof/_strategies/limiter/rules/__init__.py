"""The arithmetic of tokens, pure: one bucket, and leases from a fleet's."""
