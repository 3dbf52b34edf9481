"""Outcome of runs: records, figures, comparisons, reports."""
