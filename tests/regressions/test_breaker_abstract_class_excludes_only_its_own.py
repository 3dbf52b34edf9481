"""An exception class with an abstract base in ``exclude`` was taken for a predicate, and excluded everything.

Stormproof: a class is a class.
"""

from __future__ import annotations

import abc

import pytest

import stormproof as sp


class Expected(Exception, abc.ABC):
    pass


@pytest.mark.parametrize("exclude", [Expected, (Expected,)])
def test_errors_outside_the_excluded_class_count(
    exclude: type[Exception] | tuple[type[Exception], ...],
) -> None:
    breaker = sp.Breaker(exclude=exclude, min_calls=100)
    for error in (ConnectionError, Expected):
        with pytest.raises(error), breaker.admit():
            raise error
    assert (breaker.counts.failures, breaker.counts.excluded) == (1, 1)
