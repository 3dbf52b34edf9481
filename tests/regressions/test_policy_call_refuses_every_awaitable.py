"""``Policy.call`` took an awaitable that is not a coroutine for a finished call, and nothing retried it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

import stormproof as sp

POLICIES = {
    "retry": sp.Policy(sp.Retry(on=OSError)),
    "breaker": sp.Policy(sp.Breaker()),
    "nothing": sp.Policy(),
}


class Request:
    """Sends when it is awaited, as aiohttp's ``session.get(url)`` does."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_result_that_is_yet_to_be_awaited_is_refused(policy: sp.Policy) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"an awaitable Request from .*use `await policy.acall\(fn\)`"):
            policy.call(Request)


def test_future_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="an awaitable Future"):
            POLICIES["retry"].call(asyncio.get_running_loop().create_future)

    asyncio.run(main())


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_results_of_any_other_type_pass(policy: sp.Policy) -> None:
    for made in [type(f"Answer{n}", (), {}) for n in range(600)]:
        for _ in range(2):
            assert type(policy.call(made)) is made
    assert list(policy.call(lambda: (n for n in range(3)))) == [0, 1, 2]
