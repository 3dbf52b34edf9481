"""``stormproof.compat.backoff``: what python-backoff 3.0 added to backoff."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.integration.compat.backoff_harness import Script, run, slept

from stormproof.compat import backoff

__all__ = ["run", "slept"]

SURE = {"jitter": None, "interval": 2}


class Down(Exception):
    pass


@pytest.fixture(params=["sync", "async"])
def block(request):
    """``block(script, *args, **options)``: play ``script`` in a block, until its attempts end."""

    def play(script, *args, **options):
        if request.param == "sync":
            for attempt in backoff.retry_context(*args, **options):
                with attempt:
                    return script.play()
            return "no more attempts"

        async def main():
            async for attempt in backoff.aretry_context(*args, **options):
                with attempt:
                    return script.play()
            return "no more attempts"

        return asyncio.run(main())

    return play


def test_block_is_run_again_until_it_succeeds(block, slept):
    assert block(Script(Down(), Down(), 7), Down, backoff.constant, **SURE) == 7
    assert slept == [2, 2]


def test_block_that_gives_up_raises(block, slept):
    script = Script(Down(), Down(), Down(), 7)
    with pytest.raises(Down):
        block(script, Down, backoff.constant, max_tries=3, **SURE)
    assert script.calls == 3


def test_block_that_gives_up_quietly_ends(block, slept):
    script = Script(Down(), Down())
    options = {"max_tries": 2, "raise_on_giveup": False}
    assert block(script, Down, backoff.constant, **options, **SURE) == "no more attempts"


def test_block_raises_other_errors_at_once(block, slept):
    script = Script(KeyError("other"), 7)
    with pytest.raises(KeyError):
        block(script, Down, backoff.constant, **SURE)
    assert script.calls == 1


def test_block_ends_with_its_wait_generator(block, slept):
    script = Script(Down(), Down(), Down())
    with pytest.raises(Down):
        block(script, Down, backoff.constant, interval=[1], jitter=None, raise_on_giveup=False)
    assert script.calls == 2


def test_block_asks_giveup(block, slept):
    script = Script(Down("fatal"), 7)
    with pytest.raises(Down):
        block(script, Down, backoff.constant, giveup=lambda error: "fatal" in str(error), **SURE)
    assert script.calls == 1


def test_block_calls_its_handlers(block, slept):
    seen = []
    handlers = {f"on_{name}": lambda d, name=name: seen.append((name, d)) for name in ("try", "backoff")}
    block(Script(Down(), 7), Down, backoff.constant, **handlers, **SURE)
    assert [(name, details["tries"], details.get("wait")) for name, details in seen] == [
        ("try", 1, None),
        ("backoff", 1, 2),
        ("try", 2, None),
    ]
    assert seen[0][1]["elapsed"] == 0
    assert "target" not in seen[0][1]


def test_block_logs_under_its_own_name(block, slept, caplog):
    with caplog.at_level(logging.INFO, logger="backoff"):
        with pytest.raises(Down):
            block(Script(Down("x"), Down("y")), Down, backoff.constant, max_tries=2, **SURE)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("Backing off retry_context(...) for 2.0s (")
    assert second.startswith("Giving up retry_context(...) after 2 tries (")


def test_block_that_succeeds_calls_on_success(slept):
    seen = []
    for attempt in backoff.retry_context(Down, backoff.constant, on_success=seen.append, **SURE):
        with attempt:
            pass
    assert [details["tries"] for details in seen] == [1]


def test_on_try_runs_before_each_try(run, slept):
    seen = []
    decorator = backoff.on_exception(
        backoff.constant, Down, on_try=lambda d: seen.append((d["tries"], d["target"].__name__)), **SURE
    )
    assert run(decorator, Script(Down(), 7)) == 7
    assert seen == [(1, "target"), (2, "target")]


def test_on_try_runs_before_each_try_of_a_predicate(run, slept):
    seen = []
    decorator = backoff.on_predicate(
        backoff.constant, lambda value: value is None, on_try=lambda d: seen.append(d["tries"]), **SURE
    )
    assert run(decorator, Script(None, 7)) == 7
    assert seen == [1, 2]


def test_decay_waits_get_shorter():
    waits = backoff.decay(initial_value=8, decay_factor=1, min_value=1)
    waits.send(None)
    drawn = [next(waits) for _ in range(5)]
    assert drawn[0] == 8
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[-1] == 1


def test_coroutine_function_as_jitter_is_refused():
    async def jitter(value):
        return value

    with pytest.raises(TypeError, match="jitter must not be a coroutine function"):
        backoff.retry_context(Down, backoff.constant, jitter=jitter)
