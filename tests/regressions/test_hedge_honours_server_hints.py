"""A hedge launched the next attempt at once after a failure that said when to come back.

And a failure that said "do not retry" cancelled the other attempts, which the server might still have
answered.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http.each_client import Http, each_client
from tests.support.http.server import answer
from tests.support.loops import Loop, each_loop

import stormproof as sp


class _Backend:
    """Plays one (seconds, outcome) per attempt, and notes when each one began."""

    def __init__(self, loop: Loop, *script: tuple[float, Any]) -> None:
        self.loop = loop
        self.script = script
        self.began: list[float] = []

    async def __call__(self) -> Any:
        seconds, outcome = self.script[len(self.began)]
        self.began.append(self.loop.time())
        await self.loop.sleep(seconds)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def play(self, *strategies: Any) -> Any:
        async def main() -> Any:
            async def call() -> Any:
                return await self()

            try:
                return await sp.Policy(*strategies)(call)()
            except Exception as error:
                return error

        return self.loop.run(main)


def _busy(hint_s: float) -> Exception:
    return sp.RetryAfter(hint_s, ConnectionError("busy"))


def _hedge(**options: Any) -> sp.Hedge:
    return sp.Hedge(**{"after": 0.5, "idempotent": True, "max": 3, "budget": sp.Budget(burst=10), **options})


@each_loop
def test_hedge_after_a_hint_with_no_attempt_out_waits_for_the_hint(loop: Loop) -> None:
    backend = _Backend(loop, (0.1, _busy(2.0)), (0.1, "served"))
    assert backend.play(_hedge()) == "served"
    first, second = backend.began
    assert second - first == pytest.approx(2.1, abs=0.05)


@each_loop
def test_hedge_after_a_hint_with_an_attempt_out_waits_for_the_hint(loop: Loop) -> None:
    backend = _Backend(loop, (0.7, _busy(2.0)), (9.0, "slow"), (0.1, "served"))
    assert backend.play(_hedge()) == "served"
    first, second, third = backend.began
    assert second - first == pytest.approx(0.5, abs=0.05)
    assert third - first == pytest.approx(2.7, abs=0.05)


@each_loop
def test_hint_longer_than_the_time_left_launches_nothing_more(loop: Loop) -> None:
    backend = _Backend(loop, (0.1, _busy(20.0)), (0.1, "served"))
    failure = backend.play(sp.Deadline(10), _hedge())
    assert isinstance(failure, (ConnectionError, TimeoutError))
    assert len(backend.began) == 1


@each_loop
def test_hint_longer_than_a_minute_launches_nothing_more(loop: Loop) -> None:
    backend = _Backend(loop, (0.1, _busy(61.0)), (0.1, "served"))
    assert isinstance(backend.play(_hedge()), ConnectionError)
    assert len(backend.began) == 1


@each_loop
def test_hint_and_an_empty_budget_end_in_the_first_failure(loop: Loop) -> None:
    budget = sp.Budget(burst=1)
    budget.withdraw()
    backend = _Backend(loop, (0.1, _busy(1.0)), (0.1, "served"))
    assert isinstance(backend.play(_hedge(budget=budget)), ConnectionError)
    assert len(backend.began) == 1


def _forbidden(error: BaseException) -> sp.Verdict:
    return sp.Verdict(False, kind="pushback")


@each_loop
def test_pushback_launches_nothing_more_and_leaves_the_attempt_in_flight(loop: Loop) -> None:
    backend = _Backend(loop, (2.0, "served"), (0.1, ConnectionError("busy")), (0.1, "too many"))
    assert backend.play(_hedge(on=_forbidden)) == "served"
    assert len(backend.began) == 2


@each_loop
def test_pushback_to_the_only_attempt_ends_the_call(loop: Loop) -> None:
    backend = _Backend(loop, (0.1, ConnectionError("busy")), (0.1, "too many"))
    assert isinstance(backend.play(_hedge(on=_forbidden)), ConnectionError)
    assert len(backend.began) == 1


@each_client
async def test_retry_after_moves_the_next_hedged_request(http: Http) -> None:
    http.server.on("/", answer(503, b"", [("retry-after-ms", "300")]), answer(200, b"ok"))
    policy = sp.Policy(sp.Hedge(after=60, budget=sp.Budget(burst=10)))
    assert (await http.client(policy).get("/")).body == b"ok"
    first, second = http.server.seen
    assert second.at - first.at >= 0.29
