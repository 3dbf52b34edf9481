"""AWS's table of contention for one row: calls within 2 %, time within 4 %."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lab.published_figures import BACKOFFS, CONTENTION

import stormproof as sp
from stormproof import lab


@pytest.mark.parametrize(("kind", "clients", "calls", "milliseconds"), CONTENTION)
def test_contention_agrees_with_the_published_table(
    kind: str, clients: int, calls: float, milliseconds: float
) -> None:
    # Over 100 runs the mean time of the shortest rows still varies by 2 %.
    runs = 400 if clients == 50 and milliseconds < 5_000 else 100
    found = lab.occ(BACKOFFS[kind], clients=clients, runs=runs)
    assert found.calls_per_client == pytest.approx(calls, rel=0.02)
    assert found.completion_time == pytest.approx(milliseconds / 1000, rel=0.04)


def test_single_client_writes_once() -> None:
    alone = lab.occ(sp.Exponential(), clients=1, runs=50)
    assert alone.calls_per_client == 1.0
    assert alone.completion_time == pytest.approx(0.04, rel=0.05)  # four messages of 10 ms


def test_same_seed_gives_the_same_figures() -> None:
    first, again, other = (lab.occ(BACKOFFS["full"], 20, 10, seed) for seed in (1, 1, 2))
    assert first == again != other


class Own(sp.Backoff):
    """Knows no arrays."""

    def delay(self, n: Any, prev: Any, u: Any) -> float:
        assert type(n) is int
        assert (prev is None) == (n == 1)
        return 0.005 * 2**n * u if u < 1 else 0.0

    def ceiling(self, n: Any) -> float:
        return 0.005 * 2**n


def test_contention_takes_a_users_own_schedule() -> None:
    own = lab.occ(Own(), 20, 20, 3)
    shipped = lab.occ(sp.Exponential(0.005, cap=1e9), 20, 20, 3)
    assert own.calls_per_client == pytest.approx(shipped.calls_per_client)


@pytest.mark.parametrize("given", [{"clients": 0}, {"runs": 0}, {"seed": -1}, {"backoff": "full"}])
def test_bad_argument_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(given))):
        lab.occ(**{"backoff": sp.Exponential(), **given})
