"""With late="clip" inside a deadline, an async call ended without an event and without a cause.

Stormproof: the attempt is reported by one event, as every attempt is, and the error has the last one as its
cause.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.scripted import Boom

import stormproof as sp


def test_async_call_that_sleeps_until_its_deadline_emits_its_end():
    events: list[Any] = []
    policy = sp.Policy(
        sp.Deadline(1),
        sp.Retry(Boom, attempts=3, backoff=sp.Constant(5), late="clip", budget=None),
        name="clipped",
    )

    @policy
    async def fails():
        raise Boom

    async def main(clock: sp.testing.VirtualClock) -> None:
        with pytest.raises(sp.DeadlineExceeded) as caught:
            await fails()
        assert clock.now() == 1
        assert isinstance(caught.value.__cause__, Boom)

    stop = sp.subscribe(events.append)
    try:
        sp.testing.run(main)
    finally:
        stop()
    assert [(type(event).__name__, event.reason) for event in events] == [("GaveUp", "deadline")]
