"""States of a key, in every store, by its sync and its async form."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.loops import Loop, each_loop

from stormproof.idempotency import Claim, Record, Store
from stormproof.testing import FakeClock

DAY = 86_400.0


def test_first_begin_of_a_key_is_new(store: Store) -> None:
    claim = store.begin("order-1", "f", "a", 10)
    assert (claim.state, claim.answer, claim.taken_over) == ("new", None, False)


def test_second_begin_reports_in_progress_with_the_lease_left(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(4)
    claim = store.begin("order-1", "f", "b", 10)
    assert claim.state == "in_progress"
    assert claim.lease_left == pytest.approx(6)


def test_another_payload_is_a_mismatch_in_every_state(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.begin("order-1", "g", "b", 10).state == "mismatch"
    clock.advance(11)
    assert store.begin("order-1", "g", "b", 10, take_over=True).state == "mismatch"
    store.finish("order-1", "a", b"done")
    assert store.begin("order-1", "g", "b", 10).state == "mismatch"


@pytest.mark.parametrize("answer", [b"", b"x" * 1000, bytes(range(256)), None])
def test_finished_key_replays_its_answer(store: Store, answer: bytes | None) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.finish("order-1", "a", answer) is True
    claim = store.begin("order-1", "f", "b", 10)
    assert (claim.state, claim.answer) == ("replay", answer)


def test_answer_is_kept_a_day_from_its_end(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(5)
    store.finish("order-1", "a", b"done")
    clock.advance(DAY - 1)
    assert store.begin("order-1", "f", "b", 10).state == "replay"
    clock.advance(1)
    assert store.begin("order-1", "f", "b", 10).state == "new"


def test_ttl_of_the_call_replaces_that_of_the_store(
    make_store: Callable[..., Store], clock: FakeClock
) -> None:
    store = make_store(ttl=datetime.timedelta(seconds=60))
    for key, ttl in (("own", None), ("given", 30)):
        store.begin(key, "", "a", 10)
        store.finish(key, "a", b"done", ttl=ttl)
    clock.advance(31)
    assert store.begin("own", "", "b", 10).state == "replay"
    assert store.begin("given", "", "b", 10).state == "new"
    clock.advance(30)
    assert store.begin("own", "", "b", 10).state == "new"


def test_lease_that_is_over_is_an_unknown_outcome(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(10)
    assert store.begin("order-1", "f", "b", 10).state == "unknown"
    # Asking does not change that.
    assert store.begin("order-1", "f", "c", 10).state == "unknown"
    clock.advance(DAY - 1)
    assert store.begin("order-1", "f", "d", 10).state == "unknown"
    clock.advance(1)
    assert store.begin("order-1", "f", "e", 10).state == "new"


def test_caller_may_rerun_an_unknown_outcome(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.begin("order-1", "f", "b", 10, take_over=True).state == "in_progress"
    clock.advance(10)
    claim = store.begin("order-1", "f", "b", 10, take_over=True)
    assert (claim.state, claim.taken_over) == ("new", True)
    assert store.begin("order-1", "f", "c", 10, take_over=True).state == "in_progress"


def test_owner_after_a_takeover_cannot_finish(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(10)
    store.begin("order-1", "f", "b", 10, take_over=True)
    assert store.finish("order-1", "a", b"late") is False
    assert store.renew("order-1", "a", 100) is False
    assert store.release("order-1", "a") is False
    assert store.finish("order-1", "b", b"second") is True
    assert store.begin("order-1", "f", "c", 10).answer == b"second"


def test_late_finish_counts_unless_taken_over(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(11)
    assert store.begin("order-1", "f", "b", 10).state == "unknown"
    assert store.finish("order-1", "a", b"late") is True
    assert store.begin("order-1", "f", "b", 10).answer == b"late"


def test_renewing_moves_the_end_of_the_lease(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(9)
    assert store.renew("order-1", "a", 10) is True
    clock.advance(9)
    assert store.begin("order-1", "f", "b", 10).state == "in_progress"
    clock.advance(1)
    assert store.begin("order-1", "f", "b", 10).state == "unknown"


def test_renewing_by_zero_releases_the_key_at_once(store: Store) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.renew("order-1", "a", 0) is True
    assert store.begin("order-1", "f", "b", 10).state == "unknown"


def test_only_the_owner_finishes_renews_or_releases_a_key(store: Store) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.finish("order-1", "b", b"mine") is False
    assert store.renew("order-1", "b", 100) is False
    assert store.release("order-1", "b") is False
    assert store.begin("order-1", "f", "c", 10).state == "in_progress"


def test_released_key_runs_again(store: Store) -> None:
    store.begin("order-1", "f", "a", 10)
    assert store.release("order-1", "a") is True
    assert store.begin("order-1", "another payload", "b", 10).state == "new"


def test_finished_key_keeps_its_first_answer(store: Store) -> None:
    store.begin("order-1", "f", "a", 10)
    store.finish("order-1", "a", b"first")
    assert store.finish("order-1", "a", b"second") is True, "the owner did not hear the first answer"
    assert store.release("order-1", "a") is False
    assert store.renew("order-1", "a", 10) is False
    assert store.begin("order-1", "f", "a", 10).answer == b"first"


def test_owner_that_did_not_hear_the_answer_asks_again(store: Store, clock: FakeClock) -> None:
    store.begin("order-1", "f", "a", 10)
    clock.advance(5)
    assert store.begin("order-1", "f", "a", 10).state == "new"
    clock.advance(9)
    assert store.begin("order-1", "f", "b", 10).state == "in_progress"


def test_forgetting_settles_an_unknown_outcome(store: Store, clock: FakeClock) -> None:
    assert store.forget("order-1") is False
    store.begin("order-1", "f", "a", 10)
    clock.advance(11)
    assert store.forget("order-1") is True
    assert store.begin("order-1", "f", "b", 10).state == "new"
    assert store.finish("order-1", "a", b"late") is False


def test_key_that_was_never_begun_is_unknown(store: Store) -> None:
    assert store.finish("order-1", "a", b"x") is False
    assert store.renew("order-1", "a", 10) is False
    assert store.release("order-1", "a") is False
    assert store.begin("order-1", "f", "a", 10).state == "new"


def test_scopes_keep_the_same_key_apart(store: Store) -> None:
    store.begin("order-1", "f", "a", 10, scope="tenant-1")
    store.finish("order-1", "a", b"one", scope="tenant-1")
    assert store.begin("order-1", "f", "b", 10, scope="tenant-2").state == "new"
    assert store.begin("order-1", "f", "b", 10).state == "new"
    assert store.begin("order-1", "f", "b", 10, scope="tenant-1").answer == b"one"


def test_scope_and_key_do_not_run_into_each_other(store: Store) -> None:
    store.begin("bc", "", "a", 10, scope="a")
    assert store.begin("c", "", "b", 10, scope="ab").state == "new"
    assert store.begin("abc", "", "b", 10).state == "new"


@pytest.mark.parametrize("key", ["x", "k" * 255, "schlüssel-ключ-鍵", "' OR 1=1 --", "a b"])
def test_legal_keys_are_accepted(store: Store, key: str) -> None:
    assert store.begin(key, "", "a", 10).state == "new"
    assert store.begin(key, "", "b", 10).state == "in_progress"


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"key": ""}, ValueError, "key must not be empty"),
        ({"key": "k" * 256}, ValueError, "at most 255 characters, got 256"),
        ({"key": "a\nb"}, ValueError, "printable"),
        ({"key": "a\0b"}, ValueError, "printable"),
        ({"key": "\ud800"}, ValueError, "printable"),
        ({"key": b"bytes"}, TypeError, "key must be a string, got bytes"),
        ({"key": None}, TypeError, "key must be a string, got NoneType"),
        ({"owner": ""}, ValueError, "owner must not be empty"),
        ({"fingerprint": "f" * 256}, ValueError, "fingerprint must have at most 255"),
        ({"lease": 0}, ValueError, "lease must be > 0"),
        ({"lease": float("inf")}, ValueError, "lease must be finite"),
        ({"lease": True}, TypeError, "lease must be a number"),
        ({"scope": "s" * 1025}, ValueError, "scope must have at most 1024"),
        ({"scope": "a\rb"}, ValueError, "scope must hold printable"),
        ({"ttl": 0}, ValueError, "ttl must be > 0"),
        ({"take_over": 1}, TypeError, "take_over must be True or False"),
    ],
)
def test_refused_argument_is_named_with_its_rule(
    store: Store, change: dict[str, Any], error: type[Exception], says: str
) -> None:
    given: dict[str, Any] = {"key": "k", "fingerprint": "", "owner": "a", "lease": 10, **change}
    with pytest.raises(error, match=says):
        store.begin(**given)
    assert store.begin("k", "", "z", 10).state == "new"


def test_error_does_not_show_the_key(store: Store) -> None:
    with pytest.raises(ValueError) as caught:
        store.begin("secret-\n" * 30, "", "a", 10)
    assert "secret" not in str(caught.value)


def test_answers_beyond_max_answer_are_refused(make_store: Callable[..., Store]) -> None:
    store = make_store(max_answer=100)
    store.begin("k", "", "a", 10)
    with pytest.raises(ValueError, match="max_answer=100 bytes, got 101"):
        store.finish("k", "a", b"x" * 101)
    with pytest.raises(TypeError, match="answer must be bytes or None, got str"):
        store.finish("k", "a", "text")  # type: ignore[arg-type]
    assert store.finish("k", "a", b"x" * 100) is True


@each_loop
def test_async_methods_of_a_store_behave_as_the_sync_ones(store: Store, clock: FakeClock, loop: Loop) -> None:
    async def main() -> list[object]:
        states: list[object] = [(await store.begin_async("k", "f", "a", 10, scope="s")).state]
        states.append((await store.begin_async("k", "f", "b", 10, scope="s")).state)
        states.append(await store.renew_async("k", "a", 20, scope="s"))
        states.append(await store.finish_async("k", "b", b"no", scope="s"))
        states.append(await store.finish_async("k", "a", b"yes", scope="s"))
        states.append((await store.begin_async("k", "f", "b", 10, scope="s")).answer)
        states.append(await store.release_async("k", "a", scope="s"))
        states.append(await store.forget_async("k", scope="s"))
        states.append((await store.begin_async("k", "f", "b", 10, scope="s")).state)
        return states

    assert loop.run(main) == ["new", "in_progress", True, False, True, b"yes", False, True, "new"]
    assert store.begin("k", "f", "c", 10, scope="s").state == "in_progress"


def test_claim_shows_no_answer(store: Store) -> None:
    store.begin("k", "", "a", 10)
    store.finish("k", "a", b"card 4111")
    assert repr(store.begin("k", "", "b", 10)) == "<claim: replay, 9 bytes>"


def test_record_shows_neither_its_owner_nor_its_answer() -> None:
    running = Record(False, "f", "owner-secret", 12.5, 86_400.0)
    assert repr(running) == "<record: running until 12.5, expires 86400>"
    done = Record(True, "f", "owner-secret", 12.5, 86_400.0, b"card 4111")
    assert repr(done) == "<record: done, expires 86400>"


def test_claims_are_equal_if_all_fields_are() -> None:
    assert Claim("replay", b"x") == Claim("replay", b"x") != Claim("replay", b"y")
    assert Claim("new") != Claim("new", taken_over=True)
    assert Claim("new") != "new"
