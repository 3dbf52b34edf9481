"""Retry budgets: the default one, and those of other systems."""
