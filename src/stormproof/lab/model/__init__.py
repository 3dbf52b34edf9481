"""What is simulated: the scenario, its clients, its backend, its faults."""
