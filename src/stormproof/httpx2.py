"""httpx2 (httpx under another name) under a policy: `Transport` and `AsyncTransport`.

The code of both transports is in `stormproof._http`; this module gives them the library.
"""

from __future__ import annotations

from ._primitives.extras import extra

with extra("httpx2"):
    import httpx2

from ._http.body import AsyncBody, Body
from ._http.draft import Draft
from ._http.final_answer import NotRetried
from ._http.options import ClientOptions
from ._http.transports import Tasks, Threads

__all__ = ["AsyncBody", "AsyncTransport", "Body", "ClientOptions", "Draft", "NotRetried", "Transport"]


class Transport(Threads, httpx2.BaseTransport):
    """Sends the requests of an ``httpx2.Client`` under ``policy``, through ``transport``.

    ``transport=None`` is a new ``httpx2.HTTPTransport()``. The keywords are those of `ClientOptions`.
    A request may bring its own ``extensions={"stormproof": {"policy": ..., "idempotency_key": ...,
    "retry": False}}``.
    """

    _library = httpx2  # type: ignore[assignment]


class AsyncTransport(Tasks, httpx2.AsyncBaseTransport):
    """`Transport` for an ``httpx2.AsyncClient``, under asyncio and trio."""

    _library = httpx2  # type: ignore[assignment]
