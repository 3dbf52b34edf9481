"""Jitter: a function from the generator's wait to the wait that is slept."""

import random


def full_jitter(value: float) -> float:
    """A uniform draw between 0 and ``value``: ``random.uniform(0, value)``. The default."""
    return random.uniform(0, value)


def random_jitter(value: float) -> float:
    """``value`` plus up to one second: ``value + random.random()``."""
    return value + random.random()
