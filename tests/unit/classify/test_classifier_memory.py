"""What a classifier keeps by type; quotas that are reported in several fields."""

from __future__ import annotations

import time
from typing import Any

import pytest

import stormproof as sp
from stormproof._classify.classifier import Classifier
from stormproof._classify.server_hints import retry_after
from stormproof._classify.verdict import Verdict


def test_verdict_is_kept_for_errors_with_nothing_but_a_type() -> None:
    own = Classifier()
    verdict = own(ConnectionError())
    assert own.known[ConnectionError] is verdict and own(ConnectionError()) is verdict
    assert own(KeyError()) is own.known[KeyError] is not verdict


def test_verdict_of_an_answer_that_is_not_an_error_is_not_kept() -> None:
    own = Classifier()
    own(503)
    own(None)
    assert own.known == {} and own.final == set()


def test_verdicts_are_not_kept_beside_rules_of_the_users() -> None:
    own = Classifier()
    own.register(KeyError, lambda error: True)
    own(ConnectionError())
    assert own.known == {}


def test_refusals_are_final_whatever_is_attached_to_them() -> None:
    own = Classifier()
    assert not own(sp.CircuitOpen("db", 5.0)).retry
    assert own(sp.AttemptTimeout(1.0)).retry
    assert own.final == {sp.CircuitOpen}


def test_rules_are_looked_up_once_per_type() -> None:
    own = Classifier()
    asked: list[Any] = []

    class Own(Exception):
        pass

    class Other(Own):
        pass

    own.register(Own, lambda error: asked.append(error) or True)
    errors = [Own(), Other(), Own(), KeyError()]
    assert [own(error).retry for error in errors] == [True, True, True, False]
    assert asked == errors[:3]
    assert {kind for kind in own._plans if issubclass(kind, Own)} == {Own, Other}
    assert len(own._plans[Own]) == 1 and own._plans[KeyError] == ()


def test_rule_that_returns_an_awaitable_is_refused() -> None:
    own = Classifier()

    async def rule(error: Any) -> bool:
        return True

    own.register(KeyError, rule)
    with pytest.raises(TypeError, match="Classifier: a rule must answer at once"):
        own(KeyError())


def test_statuses_are_described_in_ranges_of_three_or_more() -> None:
    own = Classifier().with_(statuses={500, 502, 503, 504, 520, 521})
    assert own.describe()["statuses"] == [500, "502-504", 520, 521]


# RateLimit fields.


def after(**headers: str) -> float | None:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return retry_after(fields, wall_now=1_700_000_000.0)


def test_longest_quota_that_is_used_up_is_waited_for() -> None:
    assert after(ratelimit='"a";r=0;t=30,"b";r=0;t=7') == 30
    assert after(ratelimit='"a";r=5;t=30, "b";r=0;t=7') == 7
    assert after(ratelimit='"a";r=5;t=30') is None
    assert retry_after([("RateLimit", '"a";r=0;t=3'), ("RateLimit", '"b";r=0;t=9')]) == 9


@pytest.mark.parametrize(
    "field", ['"a";t=30', '"a";r=0', '"a";r=x;t=30', '"a";r=0;t=x', '"a";r=0;t=30=1', ""]
)
def test_quota_without_both_numbers_says_nothing(field: str) -> None:
    assert after(ratelimit=field) is None


def test_reset_is_in_seconds_or_since_the_epoch() -> None:
    assert after(x_ratelimit_remaining="0", x_ratelimit_reset="30") == 30
    assert after(x_ratelimit_remaining="0", x_ratelimit_reset="1700000012") == 12
    assert after(x_ratelimit_remaining="0", x_ratelimit_reset="1600000000") == 0
    assert after(x_ratelimit_remaining="1", x_ratelimit_reset="30") is None
    assert after(x_ratelimit_remaining="0") is None
    assert after(x_ratelimit_reset="30") is None


def test_reset_since_the_epoch_is_compared_with_the_wall_clock() -> None:
    given = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 50_000)}
    waits = retry_after(given)
    assert waits is not None and 40_000 < waits <= 50_000


def test_verdict_of_a_rule_is_taken_as_it_is() -> None:
    own = Classifier()
    mine = Verdict(True, 3.0)
    own.register(KeyError, mine)
    assert own(KeyError()) is mine


def test_awaitable_that_cannot_be_closed_is_refused_too() -> None:
    class Later:
        def __await__(self) -> Any:
            yield

    own = Classifier()
    own.register(KeyError, lambda error: Later())
    with pytest.raises(TypeError, match="Classifier: a rule must answer at once"):
        own(KeyError())
