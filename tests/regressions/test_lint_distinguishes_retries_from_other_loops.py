"""False findings of lint in a third set of packages: each kind, and what must still be found."""

from __future__ import annotations

import textwrap

from stormproof.lint import Settings, check

FEEDER = """
    import time

    def feed(queue, store):
        while True:
            try:
                if queue.is_closed():
                    return
                batch = queue.next()
                {}
            except Exception:
                time.sleep(1)
"""
FUTURE = """
    import asyncio, concurrent.futures

    async def result(future):
        while True:
            try:
                return future.result(timeout=0.01)
            except {}:
                pass
            await asyncio.sleep(1)
"""
INTERRUPTED = """
    import asyncio, random

    async def call(function):
        for attempt in range(3):
            try:
                return await function()
            except {}:
                raise
            except BaseException:
                await asyncio.sleep(random.uniform(0, 2**attempt))
"""
CATCHES = """
    from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

    @retry(stop=stop_after_attempt(3), retry=retry_if_exception_type({caught}){wait})
    def call(): ...
"""
LAYERS = """
    from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random

    @retry(stop=stop_after_attempt(3), wait=wait_random(), reraise={reraise})
    def read():
        {body}

    @retry(retry={outer}, stop=stop_after_attempt(3), wait=wait_random())
    def page():
        return read()
"""


def codes(text: str, path: str = "module.py") -> list[str]:
    return [finding.code for finding in check(textwrap.dedent(text), path, Settings(strict=True))]


def test_loop_whose_success_goes_on_to_the_next_piece_of_work_is_not_a_retry() -> None:
    assert codes(FEEDER.format("store.add(batch)")) == []
    assert codes(FEEDER.replace("store", "client").format("return client.add(batch)")) == ["SP009"]


def test_wait_for_a_future_is_a_poll() -> None:
    assert codes(FUTURE.format("concurrent.futures.TimeoutError")) == []
    assert codes(FUTURE.format("ConnectionError")) == ["SP009"]


def test_handler_before_a_broad_one_lets_cancellation_pass() -> None:
    assert codes(INTERRUPTED.format("(asyncio.CancelledError, KeyboardInterrupt)")) == []
    assert codes(INTERRUPTED.format("KeyError")) == ["SP010"]


def test_malformed_answer_is_asked_for_again_at_once() -> None:
    assert codes(CATCHES.format(caught="MalformedMessageError", wait="")) == []
    assert codes(CATCHES.format(caught="MessageError", wait="")) == ["SP002"]


def test_wait_for_something_to_appear_needs_no_jitter() -> None:
    assert codes(CATCHES.format(caught="RowNotFound", wait=", wait=wait_fixed(1)")) == []
    assert codes(CATCHES.format(caught="DatabaseError", wait=", wait=wait_fixed(1)")) == ["SP001"]


def test_bounded_wait_in_a_test_needs_no_jitter() -> None:
    waits = CATCHES.format(caught="DatabaseError", wait=", wait=wait_fixed(1)")
    assert codes(waits, "tests/functional/base.py") == []


def test_layer_inside_a_generator_or_one_that_ends_in_another_error_does_not_multiply() -> None:
    predicate = "retry_if_exception(is_flaky)"
    assert codes(LAYERS.format(reraise=False, body="return get()", outer=predicate)) == []
    assert codes(LAYERS.format(reraise=True, body="yield get()", outer=predicate)) == []
    assert codes(LAYERS.format(reraise=True, body="return get()", outer=predicate)) == ["SP007"]
