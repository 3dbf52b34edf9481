"""Model of a simulation: the scenario, its clients, its backend, its faults."""
