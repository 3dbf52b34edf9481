"""The experiments, by what they are about. Each module lists its own as ``PROBES``."""
