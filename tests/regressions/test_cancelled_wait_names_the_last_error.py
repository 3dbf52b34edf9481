"""A scope cancelled during the wait between two attempts: the `Cancelled` comes from the last error."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.support.scripted import Boom

import stormproof as sp

POLICY = sp.retry(on=Boom, backoff=sp.Constant(1000), within=None, budget=None)


def test_cancelled_wait_in_a_thread_names_the_last_error() -> None:
    boom = Boom()
    failed = threading.Event()

    @POLICY
    def fail() -> None:
        failed.set()
        raise boom

    with sp.deadline(None) as scope:
        helper = threading.Thread(target=lambda: failed.wait(10) and scope.cancel())
        helper.start()
        with pytest.raises(sp.Cancelled) as caught:
            fail()
    helper.join()
    assert caught.value.__cause__ is boom


def test_cancelled_wait_in_a_task_names_the_last_error() -> None:
    boom = Boom()

    @POLICY
    async def fail() -> None:
        raise boom

    async def main(clock: sp.testing.FakeClock) -> None:
        with pytest.raises(sp.Cancelled) as caught:
            with sp.deadline(None) as scope:
                asyncio.get_running_loop().call_later(5, scope.cancel)
                await fail()
        assert clock.now() == 5
        assert caught.value.__cause__ is boom

    sp.testing.run(main)
