"""What the suite does not hold: measurements, comparisons, long runs, and the report on all of them."""
