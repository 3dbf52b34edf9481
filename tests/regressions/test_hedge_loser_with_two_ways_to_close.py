"""An httpx.Response has both ``close`` and ``aclose``: in threads, calling the second closes nothing.

Stormproof: a losing hedge's answer is closed in the way of the code that runs: ``close()`` in threads,
``await aclose()`` in tasks.
"""

from __future__ import annotations

import asyncio
import threading

import stormproof as sp


class Both:
    def __init__(self):
        self.closed = []
        self.done = threading.Event()

    def close(self):
        self.closed.append("close")
        self.done.set()

    async def aclose(self):
        self.closed.append("aclose")
        self.done.set()


def test_loser_in_threads_is_closed_by_close():
    go, slow, fast = threading.Event(), Both(), Both()
    answers = [(go.wait, slow), (lambda _: None, fast)]

    @sp.Policy(sp.Hedge(after=0.01, idempotent=True))
    def call():
        wait, answer = answers.pop(0)
        wait(10)
        return answer

    assert call() is fast
    go.set()
    assert slow.done.wait(10)
    assert (slow.closed, fast.closed) == (["close"], [])


def test_loser_in_tasks_is_closed_by_aclose():
    slow, fast = Both(), Both()

    async def main():
        both = asyncio.Event()
        answers = [slow, fast]

        @sp.Policy(sp.Hedge(after=0, idempotent=True))
        async def call():
            answer = answers.pop(0)
            if answer is fast:
                both.set()
            await both.wait()
            return answer

        return await call()

    won = asyncio.run(main())
    lost = fast if won is slow else slow
    # Both were there in the same turn of the loop.
    assert (lost.closed, won.closed) == (["aclose"], [])
