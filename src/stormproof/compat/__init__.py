"""Drop-ins for the APIs of other libraries. Each is imported by name, on demand.

``from stormproof.compat import backoff`` stands in for ``import backoff`` (2.2.1).
"""
