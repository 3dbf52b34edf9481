"""Elsewhere ``max_tries=0`` means "for ever".

Holdfast: ``attempts`` is a whole number >= 1, or ``None`` where a time limit bounds the loop; anything
else is refused when the policy is made.
"""

from __future__ import annotations

import pytest

import holdfast as hf

MAKERS = [
    lambda n: hf.Retry(attempts=n),
    lambda n: hf.retry(on=ConnectionError, attempts=n),
    lambda n: hf.retrying(on=ConnectionError, attempts=n),
    lambda n: hf.retry(on=ConnectionError).with_(attempts=n),
    lambda n: hf.Retry().replace(attempts=n),
]
each_maker = pytest.mark.parametrize("make", MAKERS, ids=["Retry", "retry", "retrying", "with_", "replace"])


@each_maker
@pytest.mark.parametrize("n", [0, -1])
def test_too_few(make, n):
    with pytest.raises(ValueError, match=f"Retry: attempts must be >= 1, got {n}"):
        make(n)


@each_maker
@pytest.mark.parametrize("n", [True, False, 3.0, float("inf"), "3", []], ids=repr)
def test_not_a_whole_number(make, n):
    with pytest.raises(TypeError, match="Retry: attempts must be a whole number, got"):
        make(n)


def test_for_ever_needs_a_time_limit():
    with pytest.raises(ValueError, match=r"attempts must be a number when .* got attempts=None, within=None"):
        hf.retry(on=ConnectionError, attempts=None, within=None)
    with pytest.raises(ValueError, match="attempts=None, within=None"):
        hf.Policy(
            hf.Retry(attempts=None, within=None), hf.Deadline(5)
        )  # a deadline inside bounds one attempt
    hf.Policy(hf.Deadline(5), hf.Retry(attempts=None, within=None))
    hf.retry(on=ConnectionError, attempts=None, within=5)
