"""Minutes of load through Holdfast's httpx clients, with everything failing that can: `python -m soak`."""
