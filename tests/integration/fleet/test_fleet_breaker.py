"""A breaker that several processes share. Each store object here is an instance of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.polling import eventually
from tests.support.redis_servers import PATIENT_S, Server

import stormproof as sp

pytestmark = pytest.mark.redis


class Fleet:
    """Breakers of one name, an instance each."""

    def __init__(self, url: str, size: int, **options: object) -> None:
        given = {"name": "gate", "min_calls": 6, "open_for": 1.0, "probe_timeout": 60, **options}
        self.stores = [sp.redis.RedisStore(url, timeout=PATIENT_S) for _ in range(size)]
        self.breakers = [sp.Breaker(store=store, **given) for store in self.stores]
        eventually(lambda: all(one._fleet.instances == size for one in self.breakers), "first replies")

    def states(self) -> list[str]:
        return [one.state for one in self.breakers]

    def all_are(self, state: str) -> bool:
        return self.states() == [state] * len(self.breakers)

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def fleet(server: Server) -> Iterator[Callable[..., Fleet]]:
    made = []

    def make(size: int, **options: object) -> Fleet:
        made.append(Fleet(server.url, size, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def fail(breaker: sp.Breaker, times: int) -> None:
    for _ in range(times):
        breaker.admit().failure(ConnectionError())


def probe(fleet: Fleet) -> tuple[sp.Breaker, object]:
    """The one probe of a half-open fleet, and the breaker that got it."""
    found: list[tuple[sp.Breaker, object]] = []

    def try_each() -> bool:
        for one in fleet.breakers:
            try:
                found.append((one, one.admit()))
            except sp.CircuitOpen:
                continue
        return bool(found)

    eventually(lambda: fleet.all_are("half_open"), "half-open everywhere")
    eventually(try_each, "a probe")
    assert len(found) == 1
    return found[0]


def test_one_failing_instance_opens_only_its_own_breaker(fleet: Callable[..., Fleet], server: Server) -> None:
    three = fleet(3, open_for=60)
    fail(three.breakers[0], 6)
    eventually(lambda: three.breakers[0]._live.circuit.uncounted() == (0, 0), "its report")
    assert three.states() == ["open", "closed", "closed"]
    assert server.ask("HGET", "sp:{gate}:breaker", "state") == "closed"


def test_calls_of_all_instances_are_added_up(fleet: Callable[..., Fleet]) -> None:
    three = fleet(3, open_for=60)
    fail(three.breakers[0], 3)
    assert three.states() == ["closed"] * 3
    fail(three.breakers[1], 3)
    eventually(lambda: three.all_are("open"), "open everywhere")
    with pytest.raises(sp.CircuitOpen) as refusal:
        three.breakers[2].admit()
    assert 50 < refusal.value.retry_after <= 60


def test_successes_of_other_members_keep_the_breaker_closed(fleet: Callable[..., Fleet]) -> None:
    two = fleet(2, open_for=60)
    for _ in range(20):
        two.breakers[0].admit().success()
    eventually(lambda: two.breakers[0]._live.circuit.uncounted() == (0, 0), "the successes' report")
    fail(two.breakers[0], 2)
    fail(two.breakers[1], 4)
    eventually(lambda: all(one._live.circuit.uncounted() == (0, 0) for one in two.breakers), "the reports")
    assert two.states() == ["closed", "closed"]


def test_quorum_of_open_instances_opens_the_fleet(fleet: Callable[..., Fleet]) -> None:
    three = fleet(3, trip=lambda counts: counts.consecutive_failures >= 2, open_for=60)
    fail(three.breakers[0], 2)
    eventually(lambda: three.breakers[0]._live.circuit.uncounted() == (0, 0), "its report")
    assert three.states() == ["open", "closed", "closed"]
    fail(three.breakers[1], 2)
    eventually(lambda: three.all_are("open"), "open everywhere")


def test_fleet_of_one_needs_no_quorum(fleet: Callable[..., Fleet]) -> None:
    one = fleet(1, open_for=60)
    fail(one.breakers[0], 6)
    eventually(lambda: one.breakers[0]._live.circuit.bound, "open as a fleet")


def test_fleet_grants_one_probe_whose_success_closes_every_breaker(fleet: Callable[..., Fleet]) -> None:
    three = fleet(3, open_for=0.3)
    fail(three.breakers[0], 3)
    fail(three.breakers[1], 3)
    eventually(lambda: three.breakers[2].state != "closed", "open")
    holder, ticket = probe(three)
    for one in three.breakers:
        with pytest.raises(sp.CircuitOpen):
            one.admit()
    ticket.success()
    eventually(lambda: three.all_are("closed"), "closed everywhere")
    assert holder in three.breakers


def test_failed_probe_reopens_the_breaker_for_the_fleet(fleet: Callable[..., Fleet], server: Server) -> None:
    two = fleet(2, open_for=0.3, open_growth=100.0)
    fail(two.breakers[0], 3)
    fail(two.breakers[1], 3)
    eventually(lambda: two.breakers[1].state != "closed", "open")
    _, ticket = probe(two)
    ticket.failure(ConnectionError())
    eventually(lambda: server.ask("HGET", "sp:{gate}:breaker", "reopened") == "1", "the report")
    eventually(lambda: two.all_are("open"), "open everywhere")
    # It grows with every reopening, for the fleet.
    waits = [one._live.circuit.wait_for(one._now()) for one in two.breakers]
    assert all(20 < wait <= 30 for wait in waits)


def test_several_probes_may_be_with_several_instances(fleet: Callable[..., Fleet]) -> None:
    two = fleet(2, open_for=0.3, probes=2)
    fail(two.breakers[0], 3)
    fail(two.breakers[1], 3)
    eventually(lambda: two.breakers[1].state != "closed", "open")
    eventually(lambda: two.all_are("half_open"), "half-open everywhere")
    tickets: list[object] = []

    def try_each() -> bool:
        for one in two.breakers:
            try:
                tickets.append(one.admit())
            except sp.CircuitOpen:
                continue
        return len(tickets) >= 2

    eventually(try_each, "two probes")
    assert len(tickets) == 2
    tickets[0].success()
    tickets[1].success()
    eventually(lambda: two.all_are("closed"), "closed everywhere")


def test_two_probes_of_one_process_are_both_reported(fleet: Callable[..., Fleet]) -> None:
    one = fleet(1, open_for=0.3, probes=2, probe_timeout=60)
    (breaker,) = one.breakers
    fail(breaker, 6)
    eventually(lambda: breaker.state == "half_open", "half-open")
    tickets: list[object] = []

    def try_it() -> bool:
        try:
            tickets.append(breaker.admit())
        except sp.CircuitOpen:
            pass
        return len(tickets) == 2

    eventually(try_it, "two probes")
    # Nothing is emitted in between.
    for ticket in tickets:
        ticket.success()
    eventually(lambda: breaker.state == "closed", "closed, long before a probe is given up")


def test_unused_probe_is_granted_to_another_instance_that_asks(fleet: Callable[..., Fleet]) -> None:
    two = fleet(2, open_for=0.3, probe_timeout=600)
    first, second = two.breakers
    fail(first, 3)
    fail(second, 3)
    eventually(lambda: two.all_are("half_open"), "half-open everywhere")
    with pytest.raises(sp.CircuitOpen) as refusal:
        first.admit()
    assert 0.05 <= refusal.value.retry_after <= 1
    eventually(lambda: first._live.circuit._leased is not None, "its lease")

    def probed() -> bool:
        try:
            second.admit().success()
        except sp.CircuitOpen:
            return False
        return True

    eventually(probed, "the probe that was not used")
    eventually(lambda: two.all_are("closed"), "closed everywhere")


def test_unused_probe_without_other_takers_is_kept(fleet: Callable[..., Fleet]) -> None:
    two = fleet(2, open_for=0.3, probe_timeout=600)
    first = two.breakers[0]
    fail(first, 3)
    fail(two.breakers[1], 3)
    eventually(lambda: two.all_are("half_open"), "half-open everywhere")
    with pytest.raises(sp.CircuitOpen):
        first.admit()
    eventually(lambda: first._live.circuit._leased is not None, "its lease")
    seen = two.stores[0].stats()["exchanges"]
    eventually(lambda: two.stores[0].stats()["exchanges"] >= seen + 5, "some exchanges")
    # A call that comes late finds it.
    first.admit().success()
    eventually(lambda: two.all_are("closed"), "closed everywhere")


def test_processes_are_counted_not_objects(server: Server) -> None:
    """Two breakers of one name in one process are one reporter; none takes the other's vote back."""
    with (
        sp.redis.RedisStore(server.url, timeout=10) as store,
        sp.redis.RedisStore(server.url, timeout=10) as other,
    ):
        options = {"name": "gate", "min_calls": 1000, "consecutive": 2, "open_for": 60, "quorum": 2}
        twins = [sp.Breaker(store=store, **options) for _ in range(2)]
        third = sp.Breaker(store=other, **options)
        eventually(lambda: all(one._fleet.instances == 2 for one in (*twins, third)), "two processes")
        fail(twins[0], 2)
        eventually(lambda: twins[0]._live.circuit.uncounted() == (0, 0), "its vote")
        seen = store.stats()["exchanges"]
        eventually(lambda: store.stats()["exchanges"] >= seen + 5, "its twin's reports")
        assert [one.state for one in (*twins, third)] == ["open", "closed", "closed"]
        fail(third, 2)
        eventually(lambda: all(one._live.circuit.bound for one in (*twins, third)), "open as a fleet")
        (entry,) = store.inspect()
        assert entry["state"]["instances"] == 2
        assert entry["state"]["reporters"] == sorted([store.instance, other.instance])


def test_killed_holder_of_the_probe_frees_it_within_its_lease(server: Server) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.fleet.permit_holder", "probe", server.url],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    began = time.monotonic()
    with sp.redis.RedisStore(server.url, timeout=10) as store:
        breaker = sp.Breaker(name="gate", store=store, min_calls=2, open_for=0.3, probe_timeout=1.0)
        eventually(lambda: breaker.state == "half_open", "what the fleet knows")

        def admitted() -> bool:
            try:
                breaker.admit().success()
            except sp.CircuitOpen:
                return False
            return True

        eventually(admitted, "the probe")
        # One lease of a second, and the exchanges around it: the dead process had it for ten minutes.
        assert time.monotonic() - began < 30
        eventually(lambda: breaker.state == "closed", "closed")


def test_instance_that_loses_the_store_decides_alone(fleet: Callable[..., Fleet], server: Server) -> None:
    two = fleet(2, open_for=0.3)
    fail(two.breakers[0], 3)
    fail(two.breakers[1], 3)
    eventually(lambda: all(one._live.circuit.bound for one in two.breakers), "open as a fleet")
    server.kill()
    eventually(lambda: not any(one._live.circuit.bound for one in two.breakers), "alone")
    eventually(lambda: two.all_are("half_open"), "half-open by their own clocks")
    # Each has a probe of its own now.
    for one in two.breakers:
        one.admit().success()
    assert two.states() == ["closed", "closed"]
    fail(two.breakers[0], 6)
    assert two.states() == ["open", "closed"]
    server.start()
    eventually(lambda: all(not one._fleet.alone for one in two.breakers), "the store's return")
    # What the others did not see is not held against them.
    assert two.breakers[1].state == "closed"


def test_lost_script_and_lost_key_do_not_change_the_circuit(
    fleet: Callable[..., Fleet], server: Server
) -> None:
    two = fleet(2, open_for=60)
    server.ask("SCRIPT", "FLUSH")
    server.ask("FLUSHALL")
    fail(two.breakers[0], 3)
    fail(two.breakers[1], 3)
    eventually(lambda: two.all_are("open"), "open everywhere")
    assert server.keys_without_ttl() == []


def test_key_of_the_wrong_type_emits_store_down_until_it_is_deleted(
    fleet: Callable[..., Fleet], server: Server
) -> None:
    events: list[object] = []
    unsubscribe = sp.subscribe(events.append)
    two = fleet(2, open_for=60)
    server.ask("DEL", "sp:{gate}:breaker")
    server.ask("SET", "sp:{gate}:breaker", "nonsense", "PX", 60000)
    eventually(lambda: [type(event).__name__ for event in events].count("StoreDown") == 2, "the news")
    fail(two.breakers[0], 6)
    assert two.states() == ["open", "closed"]
    server.ask("DEL", "sp:{gate}:breaker")
    eventually(lambda: [type(event).__name__ for event in events].count("StoreUp") == 2, "the end of it")
    unsubscribe()


def test_forced_breaker_does_not_follow_the_fleet(fleet: Callable[..., Fleet]) -> None:
    three = fleet(3, open_for=60)
    three.breakers[2].force_closed()
    fail(three.breakers[0], 3)
    fail(three.breakers[1], 3)
    eventually(lambda: three.states()[:2] == ["open", "open"], "the others")
    three.breakers[2].admit().success()
    three.breakers[2].reset()
    eventually(lambda: three.breakers[2].state == "open", "it follows again")


def test_breaker_changes_are_emitted_per_instance(fleet: Callable[..., Fleet]) -> None:
    events: list[object] = []
    unsubscribe = sp.subscribe(events.append)
    two = fleet(2, open_for=60)
    fail(two.breakers[0], 3)
    fail(two.breakers[1], 3)
    eventually(lambda: two.all_are("open"), "open everywhere")
    unsubscribe()
    changes = [(e.operation, e.before, e.after) for e in events if type(e).__name__ == "BreakerChanged"]
    assert changes == [("gate", "closed", "open")] * 2


@pytest.mark.parametrize("option", ["window", "probe_timeout"])
def test_breaker_option_without_an_end_is_refused_in_a_fleet(option: str) -> None:
    with sp.redis.RedisStore("redis://127.0.0.1:1") as store:
        with pytest.raises(ValueError, match=f"Breaker: {option} must be a number of seconds .* got None"):
            sp.Breaker(name="gate", store=store, **{option: None})


def test_breaker_with_a_store_and_no_name_is_refused() -> None:
    with sp.redis.RedisStore("redis://127.0.0.1:1") as store:
        with pytest.raises(TypeError, match="Breaker: name must be a string when there is a store"):
            sp.Breaker(store=store)


def test_copies_and_keys_share_the_store(server: Server) -> None:
    with sp.redis.RedisStore(server.url, timeout=10) as store:
        one = sp.Breaker(name="gate", store=store, quorum=3)
        copy = one.replace(open_for=7)
        assert (copy.store, copy.quorum, copy.name) == (store, 3, "gate")
        keyed = sp.keyed(one, key=lambda host: host)
        name = keyed.pick(("a.example",), {}).name
        assert name.startswith("gate/key-") and name == keyed["a.example"].name != keyed["b.example"].name


def test_inspection_names_state_and_reporters(fleet: Callable[..., Fleet]) -> None:
    two = fleet(2, open_for=60, min_calls=100)
    two.breakers[1].admit().success()
    fail(two.breakers[0], 2)
    eventually(lambda: all(one._live.circuit.uncounted() == (0, 0) for one in two.breakers), "the reports")
    (entry,) = two.stores[0].inspect()
    assert (entry["name"], entry["kind"]) == ("gate", "breaker")
    assert 0 < entry["ttl"] < 200
    state = entry["state"]
    assert (state["state"], state["instances"], state["calls"], state["failures"]) == ("closed", 2, 3, 2)
    assert state["reporters"] == [two.stores[0].instance]


def test_reload_changes_the_options_of_the_fleet(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "stormproof.toml"

    def write(min_calls: int, places: int) -> None:
        file.write_text(
            f'[store]\nurl = "{server.url}"\ntimeout = 0.5\n[policies.mail]\nretry = {{ attempts = 1 }}\n'
            f'breaker = {{ name = "smtp", store = true, min_calls = {min_calls}, open_for = 600 }}\n'
            f'bulkhead = {{ limit = {places}, name = "smtp", store = true, queue = 9 }}\n',
            "utf-8",
        )

    write(1000, 1)
    registry = sp.load(file)
    try:
        _, breaker, bulkhead = registry["mail"].strategies
        fail(breaker, 2)
        eventually(lambda: breaker._live.circuit.uncounted() == (0, 0), "the report")
        assert breaker.state == "closed"
        write(3, 5)
        registry.reload()
        assert registry["mail"].strategies[1] is breaker
        fail(breaker, 1)
        eventually(lambda: breaker._live.circuit.bound, "open as a fleet, by the new number")
        assert registry["mail"].strategies[2] is bulkhead and bulkhead.limit == 5
        held = [bulkhead._enqueue() for _ in range(3)]
        eventually(lambda: bulkhead.in_use == 3, "three of the five places")
        assert len(held) == 3
    finally:
        registry.store.close()
