"""A circuit that follows its fleet: the pure rule, given the fleet's state."""

from __future__ import annotations

import pytest

from stormproof._strategies.breaker.rules.fleet_circuit import FleetCircuit


def circuit(probes: int = 1) -> FleetCircuit:
    return FleetCircuit(0.0, 10.0, None, lambda reopenings: 5.0, probes, 2.0)


def ended(circuit: FleetCircuit, outcome: str, now: float, times: int = 1) -> None:
    for _ in range(times):
        bucket = circuit.roll(now)
        bucket.started()
        circuit.settle(bucket, outcome, False, now)


def test_every_call_is_reported_once() -> None:
    one = circuit()
    ended(one, "success", 0, 3)
    ended(one, "failure", 0, 2)
    assert one.uncounted() == (5, 2)
    one.counted(5, 2)
    assert one.uncounted() == (0, 0)
    ended(one, "success", 1)
    assert one.uncounted() == (1, 0)


def test_outcome_between_report_and_answer_is_kept() -> None:
    one = circuit()
    ended(one, "failure", 0, 2)
    assert one.uncounted() == (2, 2)
    ended(one, "failure", 0)
    one.counted(2, 2)
    assert one.uncounted() == (1, 1)


def test_calls_are_reported_although_they_have_left_the_window() -> None:
    one = circuit()
    ended(one, "success", 0, 4)
    one.roll(100)
    ended(one, "failure", 100)
    assert one.uncounted() == (5, 1)


def test_outcomes_that_opened_the_circuit_are_reported() -> None:
    one = circuit()
    ended(one, "failure", 0, 6)
    assert one.trip(one.generation, 0)
    assert one.votes
    assert one.uncounted() == (6, 6)


def test_locally_opened_circuit_uses_its_own_rules() -> None:
    one = circuit()
    one.trip(one.generation, 0)
    one.follow("closed", 0, 1)
    assert one.state == "open"
    one.roll(5.1)
    probe = one.admit_probe(5.1)
    assert probe is not None
    one.settle_probe(probe, "success", 5.2)
    assert one.state == "closed" and not one.votes


def test_circuit_opens_with_the_fleet_for_the_fleets_time() -> None:
    one = circuit()
    one.follow("open", 3.0, 10)
    assert one.state == "open" and one.bound and not one.votes
    assert one.wait_for(11) == pytest.approx(2.0)
    one.roll(12.9)
    assert one.state == "open"
    one.roll(13.1)
    assert one.state == "half_open" and one.bound


def test_half_open_circuit_admits_only_a_leased_probe() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    assert one.admit_probe(10) is None
    assert one.wants_probe
    one.lease("7", 2.0, 10)
    assert not one.wants_probe
    assert one.admit_probe(11) is not None
    assert one.admit_probe(11) is None


def test_expired_lease_admits_no_probe() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 2.0, 10)
    assert one.admit_probe(12) is None


def test_successful_probe_closes_nothing_before_the_fleet_closes() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 2.0, 10)
    probe = one.admit_probe(10)
    assert probe is not None
    assert one.settle_probe(probe, "success", 11)
    assert one.outcomes == [("7", "success")]
    assert one.state == "half_open"
    one.follow("closed", 0, 11.1)
    assert one.state == "closed" and not one.bound and one.closed_at == 11.1


def test_probes_failure_opens_at_once() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 2.0, 10)
    probe = one.admit_probe(10)
    assert probe is not None
    one.settle_probe(probe, "failure", 11)
    assert one.outcomes == [("7", "failure")]
    assert one.state == "open" and one.bound


def test_cancelled_probe_gives_its_lease_back() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 2.0, 10)
    probe = one.admit_probe(10)
    assert probe is not None
    one.settle_probe(probe, "excluded", 10.5)
    assert one.outcomes == [("7", "excluded")]
    assert one.state == "half_open"


def test_late_result_of_a_probe_is_not_reported() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 2.0, 10)
    probe = one.admit_probe(10)
    assert probe is not None
    assert not one.settle_probe(probe, "success", 12.5)
    assert one.outcomes == []
    one.follow("open", 5, 13)
    assert not one.settle_probe(probe, "failure", 13)
    assert one.outcomes == []


def test_circuit_without_its_fleet_follows_its_own_rules() -> None:
    one = circuit()
    one.follow("open", 3.0, 10)
    one.alone()
    one.roll(13.1)
    assert one.state == "half_open"
    probe = one.admit_probe(13.1)
    assert probe is not None
    one.settle_probe(probe, "success", 13.2)
    assert one.state == "closed"


def test_outcomes_before_the_opening_are_not_counted_again() -> None:
    one = circuit()
    ended(one, "failure", 0, 3)
    one.follow("open", 3.0, 1)
    one.follow("closed", 0, 5)
    assert one.uncounted() == (0, 0)


def test_result_of_every_probe_is_kept_until_it_is_reported() -> None:
    one = circuit(probes=3)
    one.follow("half_open", 0, 10)
    probes = []
    for token in ("7", "8", "9"):
        one.lease(token, 2.0, 10)
        probes.append(one.admit_probe(10))
    one.settle_probe(probes[0], "success", 10.1)
    one.settle_probe(probes[1], "excluded", 10.1)
    sent = list(one.outcomes)
    one.settle_probe(probes[2], "success", 10.2)
    one.forget_outcomes(sent)
    assert one.outcomes == [("9", "success")]
    one.forget_outcomes(sent)
    assert one.outcomes == [("9", "success")]


def test_lease_that_is_not_used_is_given_up_when_others_want_it() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 60.0, 10)
    one.give_up(10.1)
    assert one.outcomes == [], "not before there was time to use it"
    one.give_up(10.3)
    assert one.outcomes == [("7", "excluded")]
    assert one.admit_probe(10.3) is None and one.wants_probe
    one.give_up(10.4)
    assert one.outcomes == [("7", "excluded")]


def test_lease_that_is_in_use_is_not_given_up() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    one.lease("7", 60.0, 10)
    assert one.admit_probe(10.1) is not None
    one.give_up(11)
    assert one.outcomes == []


def test_wait_for_a_probe_is_never_zero() -> None:
    one = circuit()
    one.follow("half_open", 0, 10)
    assert one.admit_probe(10) is None
    assert 0.05 <= one.wait_for(10) <= 0.5
