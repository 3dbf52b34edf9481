"""The health of a store by itself: what is news, when it is tried again, how long it was away."""

from __future__ import annotations

import pytest

from stormproof._fleet.health import FIRST_PROBE_S, LONGEST_PROBE_S, Health


def test_first_answer_is_not_reported_as_a_recovery() -> None:
    health = Health()
    assert (health.state, health.down) == ("unknown", False)
    assert health.answered(7.0) is None
    assert (health.state, health.since) == ("up", 7.0)


def test_further_answer_changes_nothing() -> None:
    """Two callers may be answered at once; only one of them brings the news."""
    health = Health()
    health.failed("builtins.OSError", 10.0, 0.0)
    assert health.answered(14.0) == 4.0
    assert health.answered(20.0) is None
    assert (health.state, health.since, health.error) == ("up", 14.0, None)


def test_only_the_first_failure_is_reported() -> None:
    health = Health()
    assert health.failed("a.Error", 10.0, 0.0) is True
    assert health.failed("b.Error", 11.0, 0.0) is False
    assert (health.down, health.since, health.error) == (True, 10.0, "b.Error")
    health.answered(12.0)
    assert health.failed("a.Error", 20.0, 0.0) is True
    assert health.since == 20.0


@pytest.mark.parametrize(("u", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_probe_waits_double_up_to_the_longest_and_are_spread(u: float, share: float) -> None:
    health = Health()
    waits = []
    for _ in range(8):
        health.failed("a.Error", 100.0, u)
        waits.append(health.probe_at - 100.0)
    wanted = [FIRST_PROBE_S * 2**n for n in range(5)] + [LONGEST_PROBE_S] * 3
    assert waits == pytest.approx([wait * share for wait in wanted])
    health.answered(101.0)
    health.failed("a.Error", 200.0, u)
    assert health.probe_at == pytest.approx(200.0 + FIRST_PROBE_S * share)
