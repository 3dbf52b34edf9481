"""A server's answer may lengthen a wait, up to a cap, and do nothing else: no more attempts, none sooner."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stormproof as sp
import stormproof.httpx

pytestmark = pytest.mark.proves("security hints")

OWN, MOST = 0.5, 20.0
NAMES = st.sampled_from(
    [
        "Retry-After",
        "retry-after-ms",
        "x-amz-retry-after",
        "x-should-retry",
        "X-RateLimit-Reset",
        "grpc-retry-pushback-ms",
    ]
)
VALUES = (
    st.integers(-5, 10**13).map(str)
    | st.floats(allow_nan=True).map(str)
    | st.integers(0, 2**33).map(lambda at: formatdate(at, usegmt=True))
    | st.sampled_from(["true", "false", "", "0", "-1", "now", "1, 2", "1e9", "0x7f"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
)
ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([400, 408, 425, 429, 500, 501, 502, 503, 504, 529]),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def _played(answers: list[Any], **options: Any) -> tuple[int, list[float]]:
    """Return the requests made of a server that gives these answers, the last for ever; and the waits."""
    made = 0

    def serve(request: httpx.Request) -> httpx.Response:
        nonlocal made
        status, headers = answers[min(made, len(answers) - 1)]
        made += 1
        return httpx.Response(status, headers=[(name, value) for name, value in headers])

    retrying = sp.Retry(backoff=sp.Constant(OWN), within=None, max_hint=MOST, **{"budget": None, **options})
    with sp.testing.instant() as clock:
        transport = stormproof.httpx.Transport(sp.Policy(retrying), httpx.MockTransport(serve))
        with httpx.Client(transport=transport, trust_env=False) as client:
            client.get("http://server.invalid/")
        return made, list(clock.sleeps)


@settings(max_examples=150)
@given(ANSWERS, st.integers(1, 5))
def test_any_answers_of_a_server_keep_attempts_and_waits_bounded(answers: list[Any], attempts: int) -> None:
    made, waits = _played(answers, attempts=attempts)
    assert made <= attempts
    assert len(waits) == made - 1
    # A tenth more at the most, so that not all come back at once.
    assert all(OWN <= wait <= max(OWN, 1.1 * MOST) for wait in waits)


@settings(max_examples=60)
@given(ANSWERS, st.integers(0, 3))
def test_hostile_answers_lift_no_budget(answers: list[Any], burst: int) -> None:
    made, _ = _played(answers, attempts=10, budget=sp.Budget(ratio=0, burst=burst))
    assert made <= 1 + burst


def test_longest_allowed_hints_bound_attempts_and_waits(measured: Callable[[str], None]) -> None:
    """Each answer asks for the longest wait that is still obeyed."""
    made, waits = _played([(503, [("Retry-After", str(int(MOST)))])], attempts=4)
    assert (made, len(waits)) == (4, 3)
    assert all(MOST <= wait <= 1.1 * MOST for wait in waits)
    longer = _played([(503, [("Retry-After", str(int(MOST) + 1))])], attempts=4)
    assert longer == (1, [])
    measured(
        f"4 attempts asked to wait {MOST:.0f} s each: longest wait {max(waits):.1f} s; 1 s more ends the call"
    )


@pytest.mark.parametrize("status", [200, 201, 301, 404])
def test_hint_on_a_fatal_status_causes_no_retry(status: int) -> None:
    assert _played([(status, [("Retry-After", "5"), ("retry-after-ms", "1")])], attempts=4) == (1, [])
