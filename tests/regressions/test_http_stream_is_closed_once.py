"""A response of a hedge's loser, read to its end as the loser was cancelled, was closed a second time."""

from __future__ import annotations

import asyncio

from stormproof._http.streams import Guarded


class Stream:
    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def test_guarded_stream_closed_twice_closes_its_inner_stream_once() -> None:
    guarded, stream = Guarded(), Stream()
    guarded.inner, guarded.transport = stream, None

    async def close_twice() -> None:
        await guarded.aclose()
        await guarded.aclose()

    asyncio.run(close_twice())
    assert stream.closed == 1
