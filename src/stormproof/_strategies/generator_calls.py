"""Results of strategies that answer in place of a call, which may be a generator."""

from __future__ import annotations

from .._runtime.function_kind import function_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from .protocol import Env


def is_stream(env: Env) -> bool:
    """Return True if the compiled function is a generator, whose calls give items and not a value."""
    return env.function is not None and "generator" in function_kind(env.function)


def in_async(env: Env, value: object) -> Any:
    """``value`` as the answer of an async call: for an async generator function, plain items will do."""
    return _items(value) if is_stream(env) and not hasattr(value, "__aiter__") else value


async def _items(value: Any) -> AsyncGenerator[Any, None]:
    for item in value:
        yield item
