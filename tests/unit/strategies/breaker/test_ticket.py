"""A ticket settles its breaker once, with the outcome and the error of its call."""

from __future__ import annotations

from typing import Any

import pytest

from stormproof._strategies.breaker.ticket import Ticket


class Settled:
    """A breaker that writes down how its tickets end."""

    def __init__(self, outcome: str = "failure") -> None:
        self.outcome = outcome
        self.ends: list[tuple[str, BaseException | None]] = []

    def outcome_of(self, error: BaseException) -> str:
        if self.outcome == "raises":
            raise RuntimeError("a rule of the user's")
        return self.outcome

    def settle(self, ticket: Ticket, outcome: str, error: BaseException | None) -> None:
        self.ends.append((outcome, error))


def ticket(breaker: Any, **options: Any) -> Ticket:
    return Ticket(breaker, None, None, 0.0, **options)


ERROR = ConnectionError()


def test_first_end_counts_with_its_error() -> None:
    breaker = Settled()
    one = ticket(breaker)
    one.failure(ERROR)
    one.success()
    one.cancel()
    one.end(ERROR)
    assert breaker.ends == [("failure", ERROR)]
    ticket(breaker).success()
    ticket(breaker).cancel()
    assert breaker.ends[1:] == [("success", None), ("excluded", None)]


@pytest.mark.parametrize("outcome", ["failure", "success", "excluded"])
def test_error_counts_as_the_breaker_says(outcome: str) -> None:
    breaker = Settled(outcome)
    ticket(breaker).end(ERROR)
    with pytest.raises(ConnectionError), ticket(breaker):
        raise ERROR
    assert breaker.ends == [(outcome, ERROR)] * 2


def test_error_that_cannot_be_judged_is_excluded() -> None:
    breaker = Settled("raises")
    with pytest.raises(RuntimeError):
        ticket(breaker).end(ERROR)
    assert breaker.ends == [("excluded", None)]


def test_neutral_ticket_counts_as_excluded_however_it_ends() -> None:
    breaker = Settled()
    ticket(breaker, is_neutral=True).success()
    ticket(breaker, is_neutral=True).end(ERROR)
    with ticket(breaker, is_neutral=True):
        pass
    assert [outcome for outcome, _ in breaker.ends] == ["excluded"] * 3
