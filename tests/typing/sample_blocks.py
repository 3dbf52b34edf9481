"""Blocks, scopes and hooks."""

import stormproof as sp


def use_blocks() -> int:
    total = 0
    for attempt in sp.retrying(on=ConnectionError, attempts=3):
        with attempt:
            total += 1
        attempt.no_such_thing  # expect-error
    with sp.deadline(5) as scope:
        scope.cancel()
        scope.cancle()  # expect-error
    with sp.disabled():
        pass
    sp.deadline("5")  # expect-error
    return total


async def use_async_blocks() -> None:
    async for attempt in sp.retrying(on=ConnectionError):
        async with attempt:
            pass
    async with sp.deadline(5) as scope:
        scope.cancel()


def on_event(event: object) -> None: ...


def use_events() -> None:
    unsubscribe = sp.subscribe(on_event)
    unsubscribe()
    unsubscribe(1)  # expect-error
    sp.subscribe("on_event")  # expect-error
