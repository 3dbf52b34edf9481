"""`ByKind`: each kind of failure waits by its own backoff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stormproof as sp

BY_KIND = sp.ByKind(
    sp.Constant(1),
    throttle=sp.Constant(2),
    timeout=sp.Constant(3),
    network=sp.Constant(4),
    server=sp.Constant(5),
)


class Status(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = headers


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (Status(429), 2),
        (TimeoutError(), 3),
        (ConnectionResetError(), 4),
        (ConnectionRefusedError(), 4),
        (Status(503), 5),
    ],
)
def test_by_kind_waits_as_the_failures_kind_says(error: Exception, wait: float) -> None:
    clock = sp.testing.FakeClock()
    script: list[Any] = [error, "ok"]

    def call() -> Any:
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert sp.Policy(sp.Retry(backoff=BY_KIND), clock=clock).call(call) == "ok"
    assert clock.sleeps == [wait]


def test_by_kind_waits_as_the_default_where_nothing_is_known_or_given() -> None:
    assert BY_KIND.of(sp.Verdict(True)) is BY_KIND.default
    partial = sp.ByKind(sp.Constant(1), throttle=sp.Constant(2))
    assert partial.of(sp.transient(TimeoutError())) is partial.default
    assert partial.of(sp.transient(Status(503))) is partial.default
    assert partial.of(sp.transient(Status(429))) is partial.throttle


def test_by_kind_keeps_a_servers_hint_as_a_floor() -> None:
    verdict = sp.transient(Status(429, **{"Retry-After": "7"}))
    wait, own, place = BY_KIND.plan(0, None, verdict, lambda: 0.5)
    assert (own, place) == (2, 1)
    assert 7 <= wait <= 7.7


def test_by_kind_bounds_hold_for_every_kind() -> None:
    mixed = sp.ByKind(sp.Exponential(1, cap=8), throttle=sp.Constant(3), network=sp.Constant(0))
    assert [mixed.ceiling(n) for n in range(5)] == [3, 3, 4, 8, 8]
    assert list(mixed.ceiling(np.arange(5))) == [3, 3, 4, 8, 8]
    assert mixed.bounds(0) == (0.0, 3.0)
    assert mixed.bounds(3) == (0.0, 8.0)
    assert mixed.worst_case(3) == 3 + 3 + 4
    assert mixed.delay(2, None, 0.5) == sp.Exponential(1, cap=8).delay(2, None, 0.5)


def test_by_kind_is_rebuilt_by_its_repr_and_refuses_values_that_are_not_backoffs() -> None:
    assert eval(repr(BY_KIND), {name: getattr(sp, name) for name in sp.__all__}) == BY_KIND
    with pytest.raises(TypeError, match=r"^ByKind: default must be a schedule .*, got 1$"):
        sp.ByKind(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^ByKind: timeout must be "):
        sp.ByKind(sp.Constant(1), timeout=sp.Constant)  # type: ignore[arg-type]


def test_by_kind_can_be_written_in_a_policy_file(tmp_path: Path) -> None:
    file = tmp_path / "stormproof.toml"
    file.write_text(
        "[policies.p.retry.backoff]\nkind = 'by_kind'\ndefault = { base = '100ms' }\n"
        "throttle = { kind = 'constant', wait = '2s' }\n"
    )
    made = sp.load(file)["p"].strategies[0].backoff
    assert made == sp.ByKind(sp.Exponential(0.1), throttle=sp.Constant(2))
