"""A breaker made for plain functions saw a coroutine come back, took that for a success and never opened.

Stormproof: the awaited outcome is what counts.
"""

from __future__ import annotations

import asyncio

import pytest

import stormproof as sp


def test_awaited_failures_open_the_breaker() -> None:
    breaker = sp.Breaker(consecutive=2)

    @sp.Policy(breaker)
    async def call() -> None:
        raise ConnectionError

    for expected in (ConnectionError, ConnectionError, sp.CircuitOpen):
        with pytest.raises(expected):
            asyncio.run(call())


def test_coroutine_function_is_not_called_as_a_plain_one() -> None:
    async def call() -> None:
        pass

    with pytest.raises(TypeError, match="acall"):
        sp.Policy(sp.Breaker()).call(call)
