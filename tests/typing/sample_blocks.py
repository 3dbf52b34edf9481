"""Blocks, scopes and hooks."""

import holdfast as hf


def use_blocks() -> int:
    total = 0
    for attempt in hf.retrying(on=ConnectionError, attempts=3):
        with attempt:
            total += 1
        attempt.no_such_thing  # expect-error
    with hf.deadline(5) as scope:
        scope.cancel()
        scope.cancle()  # expect-error
    with hf.disabled():
        pass
    hf.deadline("5")  # expect-error
    return total


async def use_async_blocks() -> None:
    async for attempt in hf.retrying(on=ConnectionError):
        async with attempt:
            pass
    async with hf.deadline(5) as scope:
        scope.cancel()


def on_event(event: object) -> None: ...


def use_events() -> None:
    unsubscribe = hf.subscribe(on_event)
    unsubscribe()
    unsubscribe(1)  # expect-error
    hf.subscribe("on_event")  # expect-error
