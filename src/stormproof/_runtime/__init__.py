"""The machine underneath: clocks, randomness, locks, counters, threads, wrappers compiled per signature."""
