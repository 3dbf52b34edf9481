"""With late="clip" inside a deadline, an async call ended without a word: no event, and no cause.

Holdfast: the attempt is told by one event, as every attempt is, and the error has the last one as its cause.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.scripted import Boom

import holdfast as hf


def test_async_call_that_sleeps_until_its_deadline():
    events: list[Any] = []
    policy = hf.Policy(
        hf.Deadline(1),
        hf.Retry(Boom, attempts=3, backoff=hf.Constant(5), late="clip", budget=None),
        name="clipped",
    )

    @policy
    async def fails():
        raise Boom

    async def main(clock: hf.testing.VirtualClock) -> None:
        with pytest.raises(hf.DeadlineExceeded) as caught:
            await fails()
        assert clock.now() == 1
        assert isinstance(caught.value.__cause__, Boom)

    stop = hf.subscribe(events.append)
    try:
        hf.testing.run(main)
    finally:
        stop()
    assert [(type(event).__name__, event.reason) for event in events] == [("GaveUp", "deadline")]
