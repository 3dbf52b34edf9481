"""A `Deadline` further in looks at the scopes around it when it begins, not only when the call does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import stormproof as sp


class Cancelling:
    """A strategy that marks ``scope`` as cancelled before it calls, as another thread may while it waits."""

    def __init__(self, scope: sp.Scope) -> None:
        self.scope = scope

    def sync(self, call: Any, env: Any, like: Any) -> Any:
        def cancelling(*args: Any, **kwargs: Any) -> Any:
            self.scope.cancelled = True
            return call(*args, **kwargs)

        return cancelling

    def aio(self, call: Any, env: Any, like: Any) -> Any:
        async def cancelling(*args: Any, **kwargs: Any) -> Any:
            self.scope.cancelled = True
            return await call(*args, **kwargs)

        return cancelling


def test_scope_cancelled_meanwhile_keeps_an_inner_deadline_from_calling() -> None:
    calls: list[str] = []
    with sp.deadline(None) as scope:
        policy = sp.Policy(Cancelling(scope), sp.Deadline(5))
        with pytest.raises(sp.Cancelled):
            policy.call(calls.append, "called")
    assert calls == []


def test_scope_cancelled_meanwhile_keeps_an_inner_deadline_from_awaiting() -> None:
    calls: list[str] = []

    async def callee() -> None:
        calls.append("called")

    async def main() -> None:
        async with sp.deadline(None) as scope:
            with pytest.raises(sp.Cancelled):
                await sp.Policy(Cancelling(scope), sp.Deadline(5)).acall(callee)

    asyncio.run(main())
    assert calls == []
