"""The few private names of aiohttp's that are used: nowhere else.

aiohttp has no public way to a copy of a request, to the timer of a session's total time, or to a response
that was read and can be read again. A release without one of these names, or a mock in place of a request,
is met with what the public API allows.
"""

from __future__ import annotations

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import BaseTimerContext
from aiohttp.payload import AsyncIterablePayload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from aiohttp.payload import Payload

    from .body import AsyncBody

#: Attributes that a request gets when it is sent.
_SENT = ("response", "_ClientRequest__writer")


def copy(request: aiohttp.ClientRequest) -> aiohttp.ClientRequest:
    """A request to be sent beside or after ``request``, without what that one remembers of being sent."""
    twin = object.__new__(type(request))
    twin.__dict__.update(request.__dict__)
    for name in _SENT:
        twin.__dict__.pop(name, None)
    return twin


def timer_of(request: object) -> BaseTimerContext | None:
    """The timer of the session's total time: one object per call of the session; ``None`` without one."""
    timer = getattr(request, "_timer", None)
    return timer if isinstance(timer, BaseTimerContext) else None


def is_over(timer: BaseTimerContext | None) -> bool:
    """Return True if the session's total time has ended the request."""
    return bool(getattr(timer, "_cancelled", False))


def set_body(request: aiohttp.ClientRequest, body: AsyncBody) -> None:
    """Let ``request`` send ``body`` anew."""
    payload = AsyncIterablePayload(body, content_type="application/octet-stream")
    request._body = payload


def given_value(payload: object) -> object:
    """The value that a payload was made from."""
    return getattr(payload, "_value", None)


def wrap_iterator(payload: Payload, wrap: Callable[[Any], Any]) -> None:
    """Put ``wrap`` around the iterator of a payload that has one."""
    if isinstance(payload, AsyncIterablePayload) and hasattr(payload, "_iter"):
        payload._iter = wrap(payload._iter)


def buffer_limit(content: aiohttp.StreamReader) -> int:
    """Return the bytes that a reader buffers before it pauses its connection."""
    limit: int = getattr(content, "_high_water", 0)
    return limit


def refill(response: aiohttp.ClientResponse, data: bytes) -> None:
    """Let ``data``, which has been read and decoded, be read from ``response`` again."""
    loop = response.content._loop
    content = aiohttp.StreamReader(BaseProtocol(loop), max(1, len(data)), loop=loop)
    if data:
        content.feed_data(data)
    content.feed_eof()
    response.content = content
