"""The drivers: the only code that sleeps, awaits, locks, draws or reads a clock."""
