"""Drop-ins for the APIs of other libraries. Each is imported by name, on demand.

``from stormproof.compat import tenacity`` stands in for ``import tenacity`` (9.2), ``from stormproof.compat
import backoff`` for ``import backoff`` (2.2.1).
"""
