"""One script, one policy, one seed: the sync, async and virtual drivers emit the same events."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import virtual_driver
from tests.support.scripted import ASYNCIO, SYNC, TRIO, Bang, Boom, takes

import stormproof as sp
from stormproof._strategies.protocol import Env
from stormproof._strategies.retry.call import RetriedCall

pytestmark = pytest.mark.proves("invariant 19")

OUTCOMES = st.sampled_from([Boom, Boom, Boom, Bang, "ok"])
SCRIPTS = st.lists(st.tuples(st.integers(0, 4), OUTCOMES), min_size=1, max_size=6)


def policy(seed: int, attempts: int, within: int | None, jitter: str, burst: int) -> sp.Policy:
    return sp.Policy(
        sp.Retry(
            on=Boom,
            attempts=attempts,
            backoff=sp.Exponential(0.5, cap=4, jitter=jitter),
            within=within,
            budget=sp.Budget(ratio=0.1, burst=burst),
        ),
        name=None,
        rng=random.Random(seed),
    )


def played(
    way: Any, made: sp.Policy, script: list[tuple[int, Any]]
) -> tuple[list[dict[str, Any]], list[float]]:
    outcome = way(made, *(takes(seconds, end) for seconds, end in script), Bang)
    return [_plain(event) for event in outcome.events], outcome.sleeps


def driven(made: sp.Policy, script: list[tuple[int, Any]]) -> tuple[list[dict[str, Any]], list[float]]:
    """The same through the virtual driver, which calls nothing and sleeps nowhere."""
    events: list[Any] = []
    ends = iter([*script, (0, Bang)])
    with sp.testing.instant() as clock:

        def perform(attempt: Any) -> tuple[float, Any, Exception | None]:
            seconds, end = next(ends)
            if isinstance(end, type):
                return seconds, None, end(f"call {attempt.number}")
            return seconds, end, None

        retry = made.strategies[0]
        run = RetriedCall(retry, retry.budget, Env(made, None), "callee", object())
        stop = sp.subscribe(events.append)
        try:
            virtual_driver.drive(run, perform, clock)
        finally:
            stop()
        return [_plain(event) for event in events], clock.sleeps


def _plain(event: Any) -> dict[str, Any]:
    """The event as data. The function's name differs from driver to driver; times start anywhere."""
    fields = event.as_dict()
    del fields["operation"]
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in fields.items()}


@settings(max_examples=60)
@given(
    seed=st.integers(0, 999),
    attempts=st.integers(1, 5),
    within=st.none() | st.integers(1, 8),
    jitter=st.sampled_from(["none", "full", "equal"]),
    burst=st.integers(1, 4),
    script=SCRIPTS,
)
def test_every_driver_emits_the_same_events(
    seed: int, attempts: int, within: int | None, jitter: str, burst: int, script: list[tuple[int, Any]]
) -> None:
    def fresh() -> sp.Policy:
        return policy(seed, attempts, within, jitter, burst)

    expected = played(SYNC, fresh(), script)
    assert played(SYNC, fresh(), script) == expected, "the same seed, the same log"
    assert played(ASYNCIO, fresh(), script) == expected
    assert played(TRIO, fresh(), script) == expected
    events, sleeps = driven(fresh(), script)
    # A call that succeeds at once emits events only through the loop, which the drivers skip then.
    if script[0][1] != "ok":
        assert events == expected[0]
    assert sleeps == expected[1]
