"""Elsewhere ``max_tries=0`` means "for ever".

Stormproof: ``attempts`` is a whole number >= 1, or ``None`` where a time limit bounds the loop; anything
else is refused when the policy is made.
"""

from __future__ import annotations

import pytest

import stormproof as sp

MAKERS = [
    lambda n: sp.Retry(attempts=n),
    lambda n: sp.retry(on=ConnectionError, attempts=n),
    lambda n: sp.retrying(on=ConnectionError, attempts=n),
    lambda n: sp.retry(on=ConnectionError).with_(attempts=n),
    lambda n: sp.Retry().replace(attempts=n),
]
each_maker = pytest.mark.parametrize("make", MAKERS, ids=["Retry", "retry", "retrying", "with_", "replace"])


@each_maker
@pytest.mark.parametrize("n", [0, -1])
def test_attempts_below_1_are_refused(make, n):
    with pytest.raises(ValueError, match=f"Retry: attempts must be >= 1, got {n}"):
        make(n)


@each_maker
@pytest.mark.parametrize("n", [True, False, 3.0, float("inf"), "3", []], ids=repr)
def test_attempts_that_are_not_a_whole_number_are_refused(make, n):
    with pytest.raises(TypeError, match="Retry: attempts must be a whole number, got"):
        make(n)


def test_attempts_none_needs_a_time_limit():
    with pytest.raises(ValueError, match=r"attempts must be a number when .* got attempts=None, within=None"):
        sp.retry(on=ConnectionError, attempts=None, within=None)
    with pytest.raises(ValueError, match="attempts=None, within=None"):
        sp.Policy(
            sp.Retry(attempts=None, within=None), sp.Deadline(5)
        )  # a deadline inside bounds one attempt
    sp.Policy(sp.Deadline(5), sp.Retry(attempts=None, within=None))
    sp.retry(on=ConnectionError, attempts=None, within=5)
