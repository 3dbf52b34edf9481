"""httpx under a policy: ``httpx.Client(transport=holdfast.httpx.Transport(policy))``.

What the two transports do is in `holdfast.wire`; here they meet their library.
"""

from __future__ import annotations

import httpx

from .wire import AsyncBody, Body, ClientOptions, Draft, NotRetried
from .wire.transports import Tasks, Threads

__all__ = ["AsyncBody", "AsyncTransport", "Body", "ClientOptions", "Draft", "NotRetried", "Transport"]


class Transport(Threads, httpx.BaseTransport):
    """Sends the requests of an ``httpx.Client`` under ``policy``, through ``transport``.

    ``transport=None`` is a new ``httpx.HTTPTransport()``. The keywords are those of `ClientOptions`.
    A request may bring its own ``extensions={"holdfast": {"policy": ..., "idempotency_key": ...,
    "retry": False}}``.
    """

    _library = httpx


class AsyncTransport(Tasks, httpx.AsyncBaseTransport):
    """`Transport` for an ``httpx.AsyncClient``, under asyncio and trio."""

    _library = httpx
