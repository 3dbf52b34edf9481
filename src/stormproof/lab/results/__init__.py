"""What came out: records, figures, comparisons, reports."""
