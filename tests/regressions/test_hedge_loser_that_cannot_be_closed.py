"""The second answer of a hedged call was closed, and an error of its close() replaced the first answer.

Stormproof: the winner's answer is given whatever closing a loser's raises, and its worker thread lives on.
"""

from __future__ import annotations

import threading

from tests.support.loops import each_loop

import stormproof as sp


class Answer:
    """Cannot be closed."""

    def __init__(self, number, closing):
        self.number, self.closing = number, closing

    def close(self):
        self.closing.append(self.number)
        raise RuntimeError("close failed")


class AsyncAnswer(Answer):
    async def aclose(self):
        self.close()


@each_loop
def test_loser_task_that_cannot_be_closed_keeps_the_first_answer(loop):
    closing, calls = [], []

    @sp.Policy(sp.Hedge(after=0, idempotent=True))
    async def fetch():
        calls.append(None)
        number = len(calls)
        try:
            await loop.sleep(1 if number == 2 else 60)
        except BaseException:
            # Cancelled as the loser, it answers all the same.
            pass
        return AsyncAnswer(number, closing)

    assert loop.run(fetch).number == 2
    assert closing == [1]


@each_loop
def test_hedged_tasks_that_answer_at_once_give_one_result(loop):
    closing = []

    @sp.Policy(sp.Hedge(after=0, idempotent=True))
    async def fetch():
        await loop.sleep(1)
        return AsyncAnswer(None, closing)

    assert isinstance(loop.run(fetch), AsyncAnswer)
    assert len(closing) <= 1


def test_loser_thread_that_cannot_be_closed_keeps_the_first_answer():
    closing, workers, release = [], [], threading.Event()

    @sp.Policy(sp.Hedge(after=0.02, idempotent=True))
    def fetch():
        workers.append(threading.current_thread())
        number = len(workers)
        if number == 1:
            release.wait(10)
        return Answer(number, closing)

    try:
        assert fetch().number == 2
        assert closing == []
    finally:
        release.set()
    workers[0].join(0.1)
    assert closing == [1]
    assert workers[0].is_alive(), "the worker thread died of it"
