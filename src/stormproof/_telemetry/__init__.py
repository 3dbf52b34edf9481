"""Counts and gauges that the metric sinks and the status page show."""
