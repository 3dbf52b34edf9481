"""Drop-ins for the APIs of other libraries. Each is imported by name, on demand.

``from stormproof.compat import tenacity`` stands in for ``import tenacity`` (9.2), and so do ``backoff``
(2.2.1, and python-backoff 3.0) and ``stamina`` (26.1).
"""
