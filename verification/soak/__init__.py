"""Minutes of load through Stormproof's httpx clients, with everything failing that can: `python -m
verification.soak`."""
