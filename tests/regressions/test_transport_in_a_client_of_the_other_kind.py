"""A sync transport in an async client was refused by `'Transport' object has no attribute '__aenter__'`
where the client was used in a `with` block, and the reverse likewise.

Stormproof: the error names the client and the transport that it takes, whatever the client calls first.
"""

from __future__ import annotations

import asyncio

import httpx
import pytest

import stormproof as sp


def test_sync_transport_in_async_client_names_the_right_one() -> None:
    async def enter() -> None:
        async with httpx.AsyncClient(transport=sp.httpx.Transport(sp.Policy())):  # type: ignore[arg-type]
            pass

    message = r"^Transport: client must not be AsyncClient, which takes AsyncTransport\(policy\)$"
    with pytest.raises(AttributeError, match=message):
        asyncio.run(enter())


def test_async_transport_in_sync_client_names_the_right_one() -> None:
    client = httpx.Client(transport=sp.httpx.AsyncTransport(sp.Policy()))  # type: ignore[arg-type]
    message = r"^AsyncTransport: client must not be Client, which takes Transport\(policy\)$"
    with pytest.raises(AttributeError, match=message), client:
        pass
